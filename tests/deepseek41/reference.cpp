#include "deepseek41/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "quant/codec.h"

namespace cairn::deepseek41 {
namespace {

constexpr double kNormEpsilon = 1e-20;
constexpr double kStreamEpsilon = 1e-6;
constexpr int kStreamRounds = 20;
constexpr double kClamp = 10;
constexpr double kExpertScale = 1.5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(b.begin(), b.end(), a.begin(), 0.0);
}

Vector part_of(const Vector& x, int64_t which, int64_t size) {
  return {x.begin() + which * size, x.begin() + (which + 1) * size};
}

double root_mean_square(const Vector& x) { return std::sqrt(dot(x, x) / static_cast<double>(x.size()) + kNormEpsilon); }

Vector norm(const Vector& x, const Vector& weight = {}) {
  const double size = root_mean_square(x);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] / size * (weight.empty() ? 1 : weight[i]);
  return y;
}

/// All numbers above zero of a format with so many bits of exponent and fraction, without those above `top`.
Vector numbers(int exponent_bits, int fraction_bits, double top) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  Vector all = {0};
  for (int exponent = 0; exponent < 1 << exponent_bits; ++exponent) {
    for (int fraction = 0; fraction < 1 << fraction_bits; ++fraction) {
      const double share = std::ldexp(fraction, -fraction_bits);
      const double value = exponent == 0 ? std::ldexp(share, 1 - bias) : std::ldexp(1 + share, exponent - bias);
      if (value > 0 && value <= top) all.push_back(value);
    }
  }
  return all;
}
const Vector kE4m3 = numbers(4, 3, 448);
const Vector kE2m1 = numbers(2, 1, 6);

/// The nearest one; of two equally near ones that whose place in the list is even.
double nearest(const Vector& all, double x) {
  const double size = std::fabs(x);
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    const double distance = std::fabs(all[i] - size), before = std::fabs(all[best] - size);
    if (distance < before || (distance == before && i % 2 == 0)) best = i;
  }
  return std::copysign(all[best], x);
}

enum class Scale { kPowerOfTwo, kNumber };

void round(const Vector& all, int64_t block, Scale scales, double least, Vector& x) {
  for (size_t begin = 0; begin < x.size(); begin += block) {
    double largest = least;
    for (int64_t i = 0; i < block; ++i) largest = std::max(largest, std::fabs(x[begin + i]));
    const double exact = largest / all.back();
    const double scale = scales == Scale::kNumber ? nearest(kE4m3, exact) : std::exp2(std::ceil(std::log2(exact)));
    for (int64_t i = 0; i < block; ++i) x[begin + i] = nearest(all, x[begin + i] / scale) * scale;
  }
}

/// Places of the largest scores, ascending.
std::vector<size_t> largest(const Vector& scores, std::vector<size_t> places, size_t most) {
  std::vector<size_t> best(std::min(most, places.size()));
  std::partial_sort_copy(places.begin(), places.end(), best.begin(), best.end(),
                         [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::ranges::sort(best);
  return best;
}

std::vector<size_t> up_to(size_t n) {
  std::vector<size_t> all(n);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

double e4m3_number(uint8_t code) {
  if ((code & 127) == 127) return 0;
  const Vector& all = kE4m3;
  return (code & 128) != 0 ? -all[code & 127] : all[code & 127];
}

}  // namespace

Vector rounded(Vector x, kernels::SimulatedRounding rounding) {
  switch (rounding) {
    case kernels::SimulatedRounding::kFp8Blocks32:
      round(kE4m3, 32, Scale::kPowerOfTwo, 1e-4, x);
      break;
    case kernels::SimulatedRounding::kFp4Blocks32:
      round(kE2m1, 32, Scale::kPowerOfTwo, 6 * 0x1p-126, x);
      break;
    case kernels::SimulatedRounding::kFp4Blocks16:
      round(kE2m1, 16, Scale::kNumber, 6 * 0x1p-9, x);
      break;
  }
  return x;
}

Reference::Reference(const gguf::Reader& file, bool rounding) : file_(file), rounding_(rounding) {
  width_ = number("embedding_length");
  streams_ = number("hyper_connection.count");
  heads_ = number("attention.head_count");
  head_ = number("attention.key_length");
  rope_ = number("rope.dimension_count");
  const auto ratios = file_.metadata().integers("deepseek41.attention.compress_ratios").value();
  int64_t source = -1;
  for (size_t i = 0; i < ratios.size(); ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    Layer layer;
    layer.ratio = ratios[i];
    layer.makes_rows = has(blk + "attn_compressor_kv.weight");
    layer.chooses = has(blk + "indexer.attn_q_b.weight");
    if (layer.makes_rows) source = static_cast<int64_t>(i);
    layer.source = source;
    layers_.push_back(layer);
  }
  while (has("mtp." + std::to_string(stages_.size()) + ".attn_norm.weight")) stages_.emplace_back();
}

int64_t Reference::number(const std::string& key) const {
  return file_.metadata().integer("deepseek41." + key).value();
}

const Vector& Reference::tensor(const std::string& name) {
  Vector& values = tensors_[name];
  if (!values.empty()) return values;
  const gguf::Tensor& found = *file_.find_tensor(name);
  if (found.type == TensorType::kI8) {
    for (const std::byte byte : found.bytes) values.push_back(static_cast<double>(byte));
    return values;
  }
  std::vector<float> floats(static_cast<size_t>(found.elements()));
  quant::decode_row(found.type, found.bytes, floats);
  values.assign(floats.begin(), floats.end());
  return values;
}

Vector Reference::product(const std::string& name, const Vector& x, int64_t which) {
  const std::vector<int64_t>& shape = file_.find_tensor(name)->shape;
  const std::span<const double> w = tensor(name);
  Vector y;
  for (int64_t r = 0; r < shape[1]; ++r) y.push_back(dot(w.subspan((which * shape[1] + r) * shape[0], shape[0]), x));
  return y;
}

std::vector<float> Reference::next(TokenId token) {
  const auto classes = file_.metadata().integers("deepseek41.engram.token_map").value();
  const auto with_engram = file_.metadata().integers("deepseek41.engram.layer_ids").value();
  classes_.push_back(classes[index(token)]);
  const Vector e = part_of(tensor("token_embd.weight"), index(token), width_);
  streams_now_.clear();
  for (int64_t s = 0; s < streams_; ++s) streams_now_.insert(streams_now_.end(), e.begin(), e.end());
  carried_.assign(streams_, 0);
  carried_[0] = 1;
  const Vector mean(static_cast<size_t>(streams_), 1 / static_cast<double>(streams_));
  Vector read;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const auto found = std::ranges::find(with_engram, static_cast<int64_t>(layer));
    if (found != with_engram.end()) add_engram(layer, found - with_engram.begin());
    if (!stages_.empty()) {
      const auto targets = file_.metadata().integers("deepseek41.dspark.target_layer_ids").value();
      const Vector input = collapse(mean);
      if (std::ranges::find(targets, static_cast<int64_t>(layer)) != targets.end())
        read.insert(read.end(), input.begin(), input.end());
    }
    const Mix attending = mix(blk + "hc_attn");
    expand(attention(layer, norm(collapse(carried_), tensor(blk + "attn_norm.weight"))), attending);
    const Mix feeding = mix(blk + "hc_ffn");
    const Vector x = norm(collapse(carried_), tensor(blk + "ffn_norm.weight"));
    expand(feed_forward(blk, x, number("expert_used_count")), feeding);
  }
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    const Vector main = norm(product("mtp.0.main_proj.weight", read), tensor("mtp.0.main_norm.weight"));
    const auto position = static_cast<int64_t>(classes_.size()) - 1;
    stages_[stage].push_back(key("mtp." + std::to_string(stage) + ".", main, position, false));
  }
  const Vector logits = product("output.weight", norm(collapse(carried_), tensor("output_norm.weight")));
  return {logits.begin(), logits.end()};
}

Vector Reference::angles(bool compressed) const {
  constexpr double kOriginal = 65'536, kFactor = 16, kFast = 32, kSlow = 1;
  const double base = compressed ? 160'000 : 10'000;
  const auto n = static_cast<double>(rope_);
  const auto dimension = [&](double turns) {
    return n * std::log(kOriginal / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(dimension(kFast))), high = std::min(n - 1, std::ceil(dimension(kSlow)));
  Vector all;
  for (int64_t pair = 0; pair < rope_ / 2; ++pair) {
    const auto p = static_cast<double>(pair);
    const double theta = std::pow(base, -2 * p / n);
    const double kept = 1 - std::clamp((p - low) / std::max(0.001, high - low), 0.0, 1.0);
    all.push_back(compressed ? theta * ((1 - kept) / kFactor + kept) : theta);
  }
  return all;
}

void Reference::turn(Vector& head, int64_t position, bool compressed, double sign) const {
  const Vector all = angles(compressed);
  const auto tail = static_cast<int64_t>(head.size()) - rope_;
  for (int64_t pair = 0; pair < rope_ / 2; ++pair) {
    const double angle = sign * static_cast<double>(position) * all[pair];
    double& a = head[tail + 2 * pair];
    double& b = head[tail + 2 * pair + 1];
    const double old = a;
    a = old * std::cos(angle) - b * std::sin(angle);
    b = old * std::sin(angle) + b * std::cos(angle);
  }
}

Reference::Mix Reference::mix(const std::string& part) {
  const Vector m = product(part + "_fn.weight", norm(streams_now_));
  const Vector scale = tensor(part + "_scale.weight"), base = tensor(part + "_base.weight");
  const int64_t n = streams_;
  Mix made;
  for (int64_t s = 0; s < n; ++s) {
    made.pre.push_back(sigmoid(m[s] * scale[0] + base[s]) + kStreamEpsilon);
    made.post.push_back(2 * sigmoid(m[n + s] * scale[1] + base[n + s]));
  }
  made.comb.resize(n * n);
  for (int64_t from = 0; from < n; ++from) {
    double sum = 0;
    for (int64_t to = 0; to < n; ++to) {
      const int64_t i = 2 * n + from * n + to;
      sum += made.comb[from * n + to] = std::exp(m[i] * scale[2] + base[i]);
    }
    for (int64_t to = 0; to < n; ++to) made.comb[from * n + to] = made.comb[from * n + to] / sum + kStreamEpsilon;
  }
  const auto normalise = [&](int64_t line, int64_t step) {
    for (int64_t i = 0; i < n; ++i) {
      double sum = kStreamEpsilon;
      for (int64_t j = 0; j < n; ++j) sum += made.comb[i * line + j * step];
      for (int64_t j = 0; j < n; ++j) made.comb[i * line + j * step] /= sum;
    }
  };
  normalise(1, n);
  for (int round = 1; round < kStreamRounds; ++round) {
    normalise(n, 1);
    normalise(1, n);
  }
  return made;
}

Vector Reference::collapse(const Vector& shares) const {
  Vector h(static_cast<size_t>(width_), 0);
  for (int64_t s = 0; s < streams_; ++s) {
    for (int64_t d = 0; d < width_; ++d) h[d] += shares[s] * streams_now_[s * width_ + d];
  }
  return h;
}

void Reference::expand(const Vector& y, const Mix& how) {
  Vector out;
  for (int64_t to = 0; to < streams_; ++to) {
    for (int64_t d = 0; d < width_; ++d) {
      double sum = how.post[to] * y[d];
      for (int64_t from = 0; from < streams_; ++from) {
        sum += how.comb[from * streams_ + to] * streams_now_[from * width_ + d];
      }
      out.push_back(sum);
    }
  }
  streams_now_ = out;
  carried_ = how.pre;
}

Vector Reference::engram_rows(int64_t layer, int64_t number_of_engram) {
  const auto& metadata = file_.metadata();
  const auto primes = metadata.integers("deepseek41.engram.primes").value();
  const auto multipliers = metadata.integers("deepseek41.engram.multipliers").value();
  const auto classes = metadata.integers("deepseek41.engram.token_map").value();
  const int64_t heads = number("engram.head_count"), order = number("engram.max_ngram_size");
  const int64_t dim = number("engram.key_length");
  const std::string name = "blk." + std::to_string(layer) + ".engram_embd.weight";
  const bool fp8 = file_.find_tensor(name)->type == TensorType::kI8;
  Vector joined;
  int64_t offset = 0;
  for (int64_t n = 2; n <= order; ++n) {
    for (int64_t head = 0; head < heads; ++head) {
      unsigned __int128 hash = 0;  // wide enough for any product
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<int64_t>(classes_.size()) - 1 - i;
        const int64_t c = at >= 0 ? classes_[at] : classes[number("engram.pad_id")];
        hash ^= static_cast<unsigned __int128>(c) * multipliers[number_of_engram * order + i];
      }
      const int64_t prime = primes[(number_of_engram * (order - 1) + n - 2) * heads + head];
      const int64_t row = static_cast<int64_t>(hash % prime) + offset;
      offset += prime;
      for (int64_t i = 0; i < dim; ++i) {
        if (!fp8) {
          joined.push_back(tensor(name)[row * dim + i]);
          continue;
        }
        const int64_t begin = row * (dim + dim / 32);
        const double scale = std::exp2(tensor(name)[begin + dim + i / 32] - 127);
        joined.push_back(scale * e4m3_number(static_cast<uint8_t>(tensor(name)[begin + i])));
      }
    }
  }
  return joined;
}

void Reference::add_engram(int64_t layer, int64_t number_of_engram) {
  const std::string blk = "blk." + std::to_string(layer) + ".";
  const auto named = [&](const std::string& first, const std::string& second) {
    return has(blk + first) ? blk + first : blk + second;
  };
  const Vector all = product(named("engram_kv.weight", "engram_wkv.weight"), engram_rows(layer, number_of_engram));
  const Vector value = part_of(all, streams_, width_);
  for (int64_t s = 0; s < streams_; ++s) {
    const Vector h = norm(part_of(streams_now_, s, width_),
                          part_of(tensor(named("engram_q_norm.weight", "engram_q.weight")), s, width_));
    const Vector key =
        norm(part_of(all, s, width_), part_of(tensor(named("engram_k_norm.weight", "engram_k.weight")), s, width_));
    const double d = dot(h, key) / std::sqrt(static_cast<double>(width_));
    const double gate = sigmoid((d < 0 ? -1 : 1) * std::sqrt(std::max(std::fabs(d), 1e-6)));
    for (int64_t i = 0; i < width_; ++i) streams_now_[s * width_ + i] += gate * value[i];
  }
}

void Reference::make_rows(Layer& layer, const std::string& blk, const Vector& x) {
  layer.values.push_back(product(blk + "attn_compressor_kv.weight", x));
  if (layer.ratio > 1) layer.gates.push_back(product(blk + "attn_compressor_gate.weight", x));
  const auto count = static_cast<int64_t>(layer.values.size());
  if (count % layer.ratio != 0) return;
  const int64_t first = count - layer.ratio;
  Vector row = layer.values[first];
  if (layer.ratio > 1) {
    for (int64_t d = 0; d < head_; ++d) {
      double sum = 0, total = 0;
      for (int64_t p = first; p < count; ++p) {
        const double weight = std::exp(layer.gates[p][d]);
        sum += weight * layer.values[p][d];
        total += weight;
      }
      row[d] = sum / total;
    }
  }
  row = norm(row, tensor(blk + "attn_compressor_norm.weight"));
  Vector key = norm(product(blk + "indexer.attn_k.weight", row), tensor(blk + "indexer.k_norm.weight"));
  turn(key, first, true);
  turn(row, first, true);
  if (rounding_) {
    key = rounded(key, kernels::SimulatedRounding::kFp4Blocks32);
    row = rounded(row, kernels::SimulatedRounding::kFp4Blocks16);
  }
  layer.rows.push_back(row);
  layer.index.push_back(key);
}

void Reference::choose(int64_t number_of_layer, const Vector& low, const Vector& x) {
  const std::string blk = "blk." + std::to_string(number_of_layer) + ".";
  const Layer& layer = layers_[number_of_layer];
  const Layer& source = layers_[layer.source];
  const int64_t heads = number("attention.indexer.head_count"), dim = number("attention.indexer.key_length");
  const auto most = static_cast<size_t>(number("attention.indexer.top_k"));
  const auto size = static_cast<size_t>(number("attention.indexer.candidate_block_size"));
  const auto blocks_most = static_cast<size_t>(number("attention.indexer.candidate_blocks"));
  const Vector q = product(blk + "indexer.attn_q_b.weight", low), w = product(blk + "indexer.proj.weight", x);
  Vector scores(source.index.size(), 0);
  for (int64_t h = 0; h < heads; ++h) {
    Vector query = part_of(q, h, dim);
    turn(query, static_cast<int64_t>(classes_.size()) - 1, true);
    if (rounding_) query = rounded(query, kernels::SimulatedRounding::kFp4Blocks32);
    for (size_t row = 0; row < scores.size(); ++row) {
      scores[row] += w[h] / std::sqrt(static_cast<double>(heads)) * std::max(0.0, dot(query, source.index[row])) /
                     std::sqrt(static_cast<double>(dim));
    }
  }
  if (!layer.makes_rows) {
    chosen_ = largest(scores, candidates_, most);
    return;
  }
  chosen_ = largest(scores, up_to(scores.size()), most);
  Vector blocks;
  for (size_t begin = 0; begin < scores.size(); begin += size) {
    const bool whole = begin + size <= scores.size();
    blocks.push_back(whole ? *std::max_element(scores.begin() + begin, scores.begin() + begin + size) : HUGE_VAL);
  }
  candidates_.clear();
  for (const size_t block : largest(blocks, up_to(blocks.size()), blocks_most)) {
    for (size_t row = block * size; row < std::min(scores.size(), (block + 1) * size); ++row)
      candidates_.push_back(row);
  }
}

Vector Reference::key(const std::string& blk, const Vector& x, int64_t position, bool compressed) {
  Vector kv = norm(product(blk + "attn_kv.weight", x), tensor(blk + "attn_kv_a_norm.weight"));
  turn(kv, position, compressed);
  return rounding_ ? rounded(kv, kernels::SimulatedRounding::kFp8Blocks32) : kv;
}

Vector Reference::attention(int64_t number_of_layer, const Vector& x) {
  const std::string blk = "blk." + std::to_string(number_of_layer) + ".";
  Layer& layer = layers_[number_of_layer];
  const bool compressed = layer.ratio > 0;
  const auto position = static_cast<int64_t>(classes_.size()) - 1;
  layer.window.push_back(key(blk, x, position, compressed));
  if (layer.makes_rows) make_rows(layer, blk, x);
  if (layer.chooses) {
    choose(number_of_layer, norm(product(blk + "attn_q_a.weight", x), tensor(blk + "attn_q_a_norm.weight")), x);
  }
  std::vector<const Vector*> seen;
  for (int64_t p = std::max<int64_t>(0, position - number("attention.sliding_window") + 1); p <= position; ++p) {
    seen.push_back(&layer.window[p]);
  }
  if (compressed) {
    for (const size_t row : chosen_) seen.push_back(&layers_[layer.source].rows[row]);
  }
  return attend(blk, x, position, compressed, seen);
}

Vector Reference::attend(const std::string& blk, const Vector& x, int64_t position, bool compressed,
                         std::span<const Vector* const> seen) {
  const Vector low = norm(product(blk + "attn_q_a.weight", x), tensor(blk + "attn_q_a_norm.weight"));
  const Vector q = product(blk + "attn_q_b.weight", low);
  const Vector sinks = tensor(blk + "attn_sinks.weight");
  Vector outputs;
  for (int64_t h = 0; h < heads_; ++h) {
    Vector query = part_of(q, h, head_);
    turn(query, position, compressed);
    Vector out(static_cast<size_t>(head_), 0);
    double total = std::exp(sinks[h]);
    for (const Vector* row : seen) {
      const double weight = std::exp(dot(query, *row) / std::sqrt(static_cast<double>(head_)));
      total += weight;
      for (int64_t d = 0; d < head_; ++d) out[d] += weight * (*row)[d];
    }
    for (double& value : out) value /= total;
    turn(out, position, compressed, -1);
    outputs.insert(outputs.end(), out.begin(), out.end());
  }
  const int64_t groups = number("attention.output_group_count"), rank = number("attention.output_lora_rank");
  Vector grouped;
  for (int64_t g = 0; g < groups; ++g) {
    const Vector part = part_of(outputs, g, heads_ / groups * head_);
    const Vector all = product(blk + "attn_output_a.weight", part);
    grouped.insert(grouped.end(), all.begin() + g * rank, all.begin() + (g + 1) * rank);
  }
  return product(blk + "attn_output_b.weight", grouped);
}

Vector Reference::gated(const std::string& blk, const std::string& suffix, const Vector& x, int64_t expert) {
  const Vector g = product(blk + "ffn_gate" + suffix, x, expert);
  Vector u = product(blk + "ffn_up" + suffix, x, expert);
  for (size_t i = 0; i < u.size(); ++i) {
    const double bounded = std::min(g[i], kClamp);
    u[i] = std::clamp(u[i], -kClamp, kClamp) * bounded * sigmoid(bounded);
  }
  return product(blk + "ffn_down" + suffix, u, expert);
}

Vector Reference::feed_forward(const std::string& blk, const Vector& x, int64_t used_experts) {
  Vector p = product(blk + "ffn_gate_inp.weight", x);
  for (double& value : p) value = std::sqrt(std::log1p(std::exp(value)));
  Vector biased = p;
  const Vector bias = tensor(blk + "exp_probs_b.bias");
  for (size_t i = 0; i < p.size(); ++i) biased[i] += bias[i];
  const std::vector<size_t> used = largest(biased, up_to(p.size()), static_cast<size_t>(used_experts));
  double sum = 1e-20;
  for (const size_t expert : used) sum += p[expert];
  Vector y = gated(blk, "_shexp.weight", x, 0);
  for (const size_t expert : used) {
    const Vector part = gated(blk, "_exps.weight", x, static_cast<int64_t>(expert));
    for (int64_t d = 0; d < width_; ++d) y[d] += p[expert] / sum * kExpertScale * part[d];
  }
  return y;
}

/// The rows of a block of drafts.
struct DraftRows {
  std::vector<Vector> streams;
  std::vector<Vector> carried;
  int64_t position = 0;  ///< of the first
};

void Reference::draft_block(const std::string& blk, std::vector<Vector>& window, DraftRows& rows) {
  const size_t count = rows.streams.size();
  std::vector<Mix> attending;
  std::vector<Vector> inputs, keys;
  for (size_t i = 0; i < count; ++i) {
    streams_now_ = rows.streams[i];
    attending.push_back(mix(blk + "hc_attn"));
    inputs.push_back(norm(collapse(rows.carried[i]), tensor(blk + "attn_norm.weight")));
    keys.push_back(key(blk, inputs[i], rows.position + static_cast<int64_t>(i), false));
  }
  std::vector<const Vector*> seen;
  for (int64_t p = std::max<int64_t>(0, rows.position - number("attention.sliding_window")); p < rows.position; ++p) {
    seen.push_back(&window[p]);
  }
  for (const Vector& own : keys) seen.push_back(&own);
  for (size_t i = 0; i < count; ++i) {
    streams_now_ = rows.streams[i];
    expand(attend(blk, inputs[i], rows.position + static_cast<int64_t>(i), false, seen), attending[i]);
    const Mix feeding = mix(blk + "hc_ffn");
    const Vector x = norm(collapse(carried_), tensor(blk + "ffn_norm.weight"));
    expand(feed_forward(blk, x, number("dspark.num_experts_per_tok")), feeding);
    rows.streams[i] = streams_now_;
    rows.carried[i] = carried_;
  }
}

std::vector<Reference::Draft> Reference::drafts(TokenId last) {
  DraftRows rows;
  rows.position = static_cast<int64_t>(classes_.size());
  for (int64_t i = 0; i < number("dspark.block_size"); ++i) {
    const int64_t token = i == 0 ? index(last) : number("dspark.noise_token_id");
    const Vector e = part_of(tensor("token_embd.weight"), token, width_);
    Vector& streams = rows.streams.emplace_back();
    for (int64_t s = 0; s < streams_; ++s) streams.insert(streams.end(), e.begin(), e.end());
    rows.carried.emplace_back(static_cast<size_t>(streams_), 0.0)[0] = 1;
  }
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    draft_block("mtp." + std::to_string(stage) + ".", stages_[stage], rows);
  }
  const std::string blk = "mtp." + std::to_string(stages_.size() - 1) + ".";
  std::vector<Draft> drafts;
  for (size_t i = 0; i < rows.streams.size(); ++i) {
    streams_now_ = rows.streams[i];
    Vector hidden = collapse(rows.carried[i]);
    Vector logits = product("output.weight", norm(hidden, tensor(blk + "norm.weight")));
    const Vector& pairs = tensor(blk + "markov_head.markov_w1.weight");
    const auto rank = file_.find_tensor(blk + "markov_head.markov_w1.weight")->shape[0];
    const Vector before = part_of(pairs, index(last), rank);
    const Vector added = product(blk + "markov_head.markov_w2.weight", before);
    for (size_t token = 0; token < logits.size(); ++token) logits[token] += added[token];
    last = TokenId{static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
    hidden.insert(hidden.end(), before.begin(), before.end());
    const double confidence = sigmoid(product(blk + "confidence_head.proj.weight", hidden)[0]);
    drafts.push_back({{logits.begin(), logits.end()}, last, confidence});
  }
  return drafts;
}

}  // namespace cairn::deepseek41
