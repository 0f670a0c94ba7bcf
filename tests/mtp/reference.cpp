#include "mtp/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/codec.h"

namespace cairn::mtp {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr int kStreamRounds = 20;
constexpr double kRopeBase = 10'000;
constexpr double kClamp = 10;
constexpr double kExpertScale = 1.5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double dot(const double* a, const Vector& b) { return std::inner_product(b.begin(), b.end(), a, 0.0); }

Vector part_of(const Vector& x, int64_t which, int64_t size) {
  return {x.begin() + which * size, x.begin() + (which + 1) * size};
}

}  // namespace

Vector norm(const Vector& x, const Vector& weight) {
  const double factor = 1 / std::sqrt(dot(x.data(), x) / static_cast<double>(x.size()) + kEpsilon);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor * (weight.empty() ? 1 : weight[i]);
  return y;
}

Reference::Reference(const gguf::Reader& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {
  width = number("embedding_length");
  streams = number("hyper_connection.count");
  heads_ = number("attention.head_count");
  head_ = number("attention.key_length");
  rope_ = number("rope.dimension_count");
  window_ = number("attention.sliding_window");
}

int64_t Reference::number(const std::string& key) const { return file_.metadata().integer("deepseek4." + key).value(); }

Vector Reference::tensor(const std::string& name) const {
  const gguf::Tensor& found = *file_.find_tensor(name);
  std::vector<float> values(static_cast<size_t>(found.elements()));
  quant::decode_row(found.type, found.bytes, values);
  return {values.begin(), values.end()};
}

Vector Reference::product(const std::string& name, const Vector& x, int64_t which) const {
  const std::vector<int64_t>& shape = file_.find_tensor(name)->shape;
  const Vector w = tensor(name);
  Vector y;
  for (int64_t r = 0; r < shape[1]; ++r) y.push_back(dot(w.data() + (which * shape[1] + r) * shape[0], x));
  return y;
}

Vector Reference::begin(const Vector& before, int32_t token) const {
  const Vector e = norm(part_of(tensor("token_embd.weight"), token, width), tensor(prefix_ + "nextn.enorm.weight"));
  Vector x;
  for (int64_t s = 0; s < streams; ++s) {
    const Vector h = norm(part_of(before, s, width), tensor(prefix_ + "nextn.hnorm.weight"));
    Vector both = e;
    both.insert(both.end(), h.begin(), h.end());
    const Vector out = product(prefix_ + "nextn.eh_proj.weight", both);
    x.insert(x.end(), out.begin(), out.end());
  }
  return x;
}

Vector Reference::row(const Vector& x, int64_t position) const {
  return key(norm(mix(x, "hc_attn").collapsed, tensor(prefix_ + "attn_norm.weight")), position);
}

Vector Reference::key(const Vector& input, int64_t position) const {
  Vector kv = norm(product(prefix_ + "attn_kv.weight", input), tensor(prefix_ + "attn_kv_a_norm.weight"));
  turn(kv, position);
  return kv;
}

Vector Reference::layer(const Vector& x, const std::vector<Vector>& rows) const {
  const auto position = static_cast<int64_t>(rows.size()) - 1;
  return layer(x, position, std::span(rows).subspan(std::max<int64_t>(0, position - window_ + 1)));
}

Vector Reference::layer(const Vector& x, int64_t position, std::span<const Vector> seen) const {
  const Mix in_attention = mix(x, "hc_attn");
  const Vector input = norm(in_attention.collapsed, tensor(prefix_ + "attn_norm.weight"));
  const Vector y = expand(x, attention(input, position, seen), in_attention);
  const Mix in_forward = mix(y, "hc_ffn");
  return expand(y, feed_forward(norm(in_forward.collapsed, tensor(prefix_ + "ffn_norm.weight"))), in_forward);
}

Vector Reference::logits(const Vector& x, const std::string& name, const std::string& norm_name) const {
  const Vector m = product(name + "_fn.weight", norm(x));
  const Vector scale = tensor(name + "_scale.weight"), base = tensor(name + "_base.weight");
  Vector h(static_cast<size_t>(width), 0);
  for (int64_t s = 0; s < streams; ++s) {
    const double weight = sigmoid(m[s] * scale[0] + base[s]) + kEpsilon;
    for (int64_t d = 0; d < width; ++d) h[d] += weight * x[s * width + d];
  }
  return product("output.weight", norm(h, tensor(norm_name)));
}

void Reference::turn(Vector& head, int64_t position) const {
  for (int64_t i = 0; i < rope_; i += 2) {
    const double share = static_cast<double>(i) / static_cast<double>(rope_);
    const double angle = static_cast<double>(position) * std::pow(kRopeBase, -share);
    double& a = head[head_ - rope_ + i];
    double& b = head[head_ - rope_ + i + 1];
    const double old = a;
    a = old * std::cos(angle) - b * std::sin(angle);
    b = old * std::sin(angle) + b * std::cos(angle);
  }
}

Reference::Mix Reference::mix(const Vector& x, const std::string& part) const {
  const Vector m = product(prefix_ + part + "_fn.weight", norm(x));
  const Vector scale = tensor(prefix_ + part + "_scale.weight"), base = tensor(prefix_ + part + "_base.weight");
  Mix made{Vector(static_cast<size_t>(width), 0), {}, {}};
  for (int64_t s = 0; s < streams; ++s) {
    const double pre = sigmoid(m[s] * scale[0] + base[s]) + kEpsilon;
    for (int64_t d = 0; d < width; ++d) made.collapsed[d] += pre * x[s * width + d];
    made.post.push_back(2 * sigmoid(m[streams + s] * scale[1] + base[streams + s]));
  }
  for (int64_t from = 0; from < streams; ++from) {
    Vector line;
    for (int64_t to = 0; to < streams; ++to) {
      const int64_t i = 2 * streams + from * streams + to;
      line.push_back(std::exp(m[i] * scale[2] + base[i]));
    }
    const double sum = std::accumulate(line.begin(), line.end(), 0.0);
    for (const double value : line) made.comb.push_back(value / sum + kEpsilon);
  }
  divide(made.comb, 1, streams);
  for (int round = 1; round < kStreamRounds; ++round) {
    divide(made.comb, streams, 1);
    divide(made.comb, 1, streams);
  }
  return made;
}

void Reference::divide(Vector& c, int64_t line, int64_t stride) const {
  for (int64_t i = 0; i < streams; ++i) {
    double sum = kEpsilon;
    for (int64_t j = 0; j < streams; ++j) sum += c[i * line + j * stride];
    for (int64_t j = 0; j < streams; ++j) c[i * line + j * stride] /= sum;
  }
}

Vector Reference::expand(const Vector& x, const Vector& y, const Mix& how) const {
  Vector out;
  for (int64_t to = 0; to < streams; ++to) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = how.post[to] * y[d];
      for (int64_t from = 0; from < streams; ++from) sum += how.comb[from * streams + to] * x[from * width + d];
      out.push_back(sum);
    }
  }
  return out;
}

Vector Reference::attention(const Vector& input, int64_t position, std::span<const Vector> seen) const {
  const Vector low = norm(product(prefix_ + "attn_q_a.weight", input), tensor(prefix_ + "attn_q_a_norm.weight"));
  const Vector q = product(prefix_ + "attn_q_b.weight", low);
  const Vector sinks = tensor(prefix_ + "attn_sinks.weight");
  Vector outputs;
  for (int64_t h = 0; h < heads_; ++h) {
    Vector query = norm(part_of(q, h, head_));
    turn(query, position);
    Vector out(static_cast<size_t>(head_), 0);
    double total = std::exp(sinks[h]);
    for (const Vector& row : seen) {
      const double weight = std::exp(dot(query.data(), row) / std::sqrt(static_cast<double>(head_)));
      total += weight;
      for (int64_t d = 0; d < head_; ++d) out[d] += weight * row[d];
    }
    for (double& value : out) value /= total;
    turn(out, -position);
    outputs.insert(outputs.end(), out.begin(), out.end());
  }
  Vector grouped;
  const int64_t groups = number("attention.output_group_count");
  for (int64_t g = 0; g < groups; ++g) {
    const Vector low_out = product(prefix_ + "attn_output_a.weight", part_of(outputs, g, heads_ / groups * head_), g);
    grouped.insert(grouped.end(), low_out.begin(), low_out.end());
  }
  return product(prefix_ + "attn_output_b.weight", grouped);
}

Vector Reference::gated(const std::string& suffix, const Vector& x, int64_t expert) const {
  const Vector g = product(prefix_ + "ffn_gate" + suffix, x, expert);
  Vector u = product(prefix_ + "ffn_up" + suffix, x, expert);
  for (size_t i = 0; i < u.size(); ++i) {
    const double bounded = std::min(g[i], kClamp);
    u[i] = std::clamp(u[i], -kClamp, kClamp) * bounded * sigmoid(bounded);
  }
  return product(prefix_ + "ffn_down" + suffix, u, expert);
}

Vector Reference::feed_forward(const Vector& x) const {
  Vector p = product(prefix_ + "ffn_gate_inp.weight", x);
  for (double& value : p) value = std::sqrt(std::log1p(std::exp(value)));
  const Vector bias = tensor(prefix_ + "exp_probs_b.bias");
  std::vector<int64_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t a, int64_t b) { return p[a] + bias[a] > p[b] + bias[b]; });
  order.resize(static_cast<size_t>(number("expert_used_count")));
  double sum = 0;
  for (const int64_t expert : order) sum += p[expert];
  Vector y = gated("_shexp.weight", x, 0);
  for (const int64_t expert : order) {
    const Vector part = gated("_exps.weight", x, expert);
    for (int64_t d = 0; d < width; ++d) y[d] += p[expert] / sum * kExpertScale * part[d];
  }
  return y;
}

}  // namespace cairn::mtp
