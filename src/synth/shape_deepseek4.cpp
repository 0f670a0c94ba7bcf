// DeepSeek V4 and V4.1: what follows from other keys, and what must fit together.
#include <algorithm>
#include <functional>
#include <numeric>
#include <ranges>
#include <utility>

#include "model/parts/engram.h"
#include "synth/presets.h"
#include "synth/weights.h"

namespace cairn::synth {
namespace {

// V4: number of first layers that are routed by token id.
constexpr int64_t kHashLayers = 3;
constexpr double kSwigluClamp = 10;
constexpr int64_t kPlainRatio = 128;

// Layers of a run with one ratio: the first makes compressed rows and chooses among them. So many layers of the run,
// at equal distances, do the same if rows have several positions, or choose among the rows of the first.
constexpr int64_t kMakersOfRun = 3;
constexpr int64_t kChoosersOfRun = 5;

// What V4.1 Flash has: layers, the second one with an engram, classes and tokens.
constexpr int64_t kLayers41 = 40;
constexpr int64_t kSecondEngram41 = 14;
constexpr int64_t kClasses41 = 99'092;
constexpr int64_t kTokens41 = 129'280;
constexpr int64_t kNoise41 = 128'799;
constexpr int64_t kDraftTargets = 3;

bool is_prime(int64_t number) {
  for (int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return number > 1;
}

std::vector<double> primes_above(int64_t least, int64_t count) {
  std::vector<double> primes;
  for (int64_t number = least + 1; std::ssize(primes) < count; ++number) {
    if (is_prime(number)) primes.push_back(static_cast<double>(number));
  }
  return primes;
}

// Odd ones whose products with a class stay below 2^63.
std::vector<double> multipliers_of(int64_t classes, int64_t count) {
  const int64_t bound = std::min(kMultiplierMax, INT64_MAX / std::max<int64_t>(classes, 1));
  Random random(1);
  std::vector<double> multipliers;
  multipliers.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    multipliers.push_back(static_cast<double>((random.next() % static_cast<uint64_t>(bound - 1)) | 1));
  }
  return multipliers;
}

struct Sources {
  std::vector<double> makers;    ///< of compressed rows
  std::vector<double> choosers;  ///< among them
};

Sources sources_of(std::span<const int64_t> ratios) {
  Sources sources;
  const int64_t layers = std::ssize(ratios);
  for (int64_t begin = 0, end = 0; begin < layers; begin = end) {
    const int64_t ratio = ratios[static_cast<size_t>(begin)];
    while (end < layers && ratios[static_cast<size_t>(end)] == ratio) ++end;
    if (ratio == 0) continue;
    const int64_t parts = ratio > 1 ? kMakersOfRun : kChoosersOfRun;
    const int64_t step = (end - begin + parts - 1) / parts;
    for (int64_t layer = begin; layer < end; layer += step) {
      sources.choosers.push_back(static_cast<double>(layer));
      if (ratio > 1 || layer == begin) sources.makers.push_back(static_cast<double>(layer));
    }
  }
  return sources;
}

std::vector<double> one(int64_t value) { return {static_cast<double>(value)}; }

// Without a number of layers there are as many as ratios.
void take_layers_of_ratios(Shape& shape) {
  Key* layers = shape.find("block_count");
  const auto ratios = std::ssize(shape.find("attention.compress_ratios")->values);
  if (ratios > 0 && !layers->is_chosen) layers->values = one(ratios);
}

void complete_engrams(Shape& shape) {
  const int64_t layers = shape.layers(), second = layers * kSecondEngram41 / kLayers41;
  std::vector<double> ids;
  if (layers > 1) ids.push_back(1);
  if (second > 1) ids.push_back(static_cast<double>(second));
  shape.derive("engram.layer_ids", std::move(ids));
  const int64_t tokens = shape.integer("vocab_size");
  shape.derive("engram.compressed_vocab_size", one(std::max<int64_t>(tokens * kClasses41 / kTokens41, 1)));
  const int64_t classes = std::clamp<int64_t>(shape.integer("engram.compressed_vocab_size"), 1, kNumberMax);
  std::vector<double> map;
  map.reserve(static_cast<size_t>(tokens));
  for (int64_t token = 0; token < tokens; ++token) map.push_back(static_cast<double>(token % classes));
  shape.derive("engram.token_map", std::move(map));
  const int64_t engrams = std::ssize(shape.integers("engram.layer_ids"));
  const int64_t order = std::clamp<int64_t>(shape.integer("engram.max_ngram_size"), 1, model::kEngramOrderMax);
  const int64_t own = (order - 1) * std::clamp<int64_t>(shape.integer("engram.head_count"), 0, model::kEngramHeadsMax);
  shape.derive("engram.multipliers", multipliers_of(classes, engrams * order));
  Key* primes = shape.find("engram.primes");
  if (primes->values.size() == 1 && primes->values[0] <= UINT32_MAX) {
    primes->values = primes_above(shape.integer("engram.primes"), engrams * own);
  }
  std::vector<double> offsets;
  double offset = 0;
  for (size_t i = 0; i < primes->values.size(); ++i) {
    if (own > 0 && i % static_cast<size_t>(own) == 0) offset = 0;
    offsets.push_back(offset);
    offset += primes->values[i];
  }
  shape.derive("engram.offsets", std::move(offsets));
}

void complete_dspark(Shape& shape) {
  shape.derive("dspark.block_size", one(5));
  shape.derive("dspark.markov_rank", one(256));
  shape.derive("dspark.noise_token_id", one(std::min(kNoise41, shape.integer("vocab_size") - 1)));
  std::vector<double> targets;
  for (int64_t layer = std::max<int64_t>(shape.layers() - kDraftTargets, 0); layer < shape.layers(); ++layer) {
    targets.push_back(static_cast<double>(layer));
  }
  shape.derive("dspark.target_layer_ids", std::move(targets));
  shape.derive("dspark.n_routed_experts", one(std::max<int64_t>(shape.integer("expert_count") / 3, 1)));
  const int64_t experts = shape.integer("dspark.n_routed_experts");
  const int64_t used = std::clamp<int64_t>(shape.integer("expert_used_count") / 2, 1, std::max<int64_t>(experts, 1));
  shape.derive("dspark.num_experts_per_tok", one(used));
}

// Numbers of layers that are in a list must be those of layers, in ascending order.
Result<void> check_layer_ids(const Shape& shape, std::string_view key) {
  const std::vector<int64_t> ids = shape.integers(key);
  if (!std::ranges::is_sorted(ids, std::less_equal<>())) return misfit(key, "its numbers of layers must ascend");
  if (ids.empty() || ids.back() < shape.layers()) return {};
  return misfit(key, fmt::format("it names layer {}, but there are {}", ids.back(), shape.layers()));
}

// The loader does not read the number of classes, and the lists' sizes follow from keys that may be set.
Result<void> check_engrams(const Shape& shape) {
  const int64_t engrams = std::ssize(shape.integers("engram.layer_ids")), tokens = shape.integer("vocab_size");
  const int64_t order = shape.integer("engram.max_ngram_size"), heads = shape.integer("engram.head_count");
  if (order > model::kEngramOrderMax)
    return misfit("engram.max_ngram_size", fmt::format("it is above {}", model::kEngramOrderMax));
  if (heads > model::kEngramHeadsMax)
    return misfit("engram.head_count", fmt::format("it is above {}", model::kEngramHeadsMax));
  const int64_t primes = engrams * (order - 1) * heads;
  const std::pair<const char*, int64_t> sizes[] = {{"engram.token_map", tokens},
                                                   {"engram.multipliers", engrams * order},
                                                   {"engram.primes", primes},
                                                   {"engram.offsets", primes}};
  for (const auto& [key, size] : sizes) {
    const int64_t there = std::ssize(shape.integers(key));
    if (there != size) return misfit(key, fmt::format("{} values, but {} are needed", there, size));
  }
  const std::vector<int64_t> map = shape.integers("engram.token_map");
  const int64_t classes = shape.integer("engram.compressed_vocab_size");
  if (!map.empty() && std::ranges::max(map) >= std::min(classes, tokens)) {
    return misfit("engram.token_map", fmt::format("it names class {}, but there are {}, and {} tokens",
                                                  std::ranges::max(map), classes, tokens));
  }
  const std::vector<int64_t> multipliers = shape.integers("engram.multipliers");
  if (!multipliers.empty() && std::ranges::max(multipliers) > INT64_MAX / std::max<int64_t>(classes, 1)) {
    return misfit("engram.multipliers", "a product with a class must stay below 2^63");
  }
  return {};
}

}  // namespace

void complete_deepseek4(Shape& shape) {
  Key* layers = shape.find("block_count");
  // MTP modules are additional to the layers of a shape, and count as blocks in files.
  const int64_t predicting = shape.integer("nextn_predict_layers");
  const bool has_ratios = !shape.integers("attention.compress_ratios").empty();
  if (!has_ratios && !layers->is_chosen) layers->values[0] += static_cast<double>(predicting);
  take_layers_of_ratios(shape);
  const int64_t main_layers = shape.layers() - predicting;
  shape.derive_layers("attention.compress_ratios", [&](int64_t layer) {
    const int64_t later = layer % 2 == 0 ? kOverlapRatio : kPlainRatio;
    return static_cast<double>(layer >= main_layers ? 0 : layer < 2 ? shape.first_ratio() : later);
  });
  shape.derive_layers("swiglu_clamp_exp", [](int64_t) { return kSwigluClamp; });
  shape.derive("hash_layer_count", one(std::clamp<int64_t>(main_layers, 0, kHashLayers)));
}

void complete_deepseek41(Shape& shape) {
  take_layers_of_ratios(shape);
  const int64_t half = shape.layers() / 2;
  shape.derive_layers("attention.compress_ratios", [=](int64_t layer) { return layer < 2 ? 0 : layer < half ? 2 : 1; });
  shape.derive_layers("swiglu_clamp_exp", [](int64_t) { return kSwigluClamp; });
  Sources sources = sources_of(shape.integers("attention.compress_ratios"));
  shape.derive("kv_source_layer_ids", std::move(sources.makers));
  shape.derive("index_source_layer_ids", std::move(sources.choosers));
  complete_engrams(shape);
  if (shape.integer("dspark.stage_count") > 0) complete_dspark(shape);
}

Result<void> check_deepseek4(const Shape& shape) {
  const int64_t blocks = shape.integer("block_count"), predicting = shape.integer("nextn_predict_layers");
  if (predicting >= blocks) return misfit("nextn_predict_layers", fmt::format("there are {} blocks", blocks));
  const std::vector<int64_t> ratios = shape.integers("attention.compress_ratios");
  if (std::ranges::any_of(ratios | std::views::drop(blocks - predicting), [](int64_t ratio) { return ratio != 0; })) {
    return misfit("attention.compress_ratios", "blocks that predict compress nothing: their ratio is 0");
  }
  for (const int64_t ratio : ratios) {
    if (ratio == 0 || ratio == kOverlapRatio || ratio == kPlainRatio) continue;
    return misfit("attention.compress_ratios",
                  fmt::format("{} is none of 0, {} and {}", ratio, kOverlapRatio, kPlainRatio));
  }
  return {};
}

Result<void> check_deepseek41(const Shape& shape) {
  for (const char* key :
       {"kv_source_layer_ids", "index_source_layer_ids", "engram.layer_ids", "dspark.target_layer_ids"}) {
    CAIRN_TRY_VOID(check_layer_ids(shape, key));
  }
  const std::vector<int64_t> ratios = shape.integers("attention.compress_ratios");
  const std::vector<int64_t> makers = shape.integers("kv_source_layer_ids");
  int64_t made = 0;  // ratio of the rows that a layer sees
  for (int64_t layer = 0; layer < std::ssize(ratios); ++layer) {
    const int64_t ratio = ratios[static_cast<size_t>(layer)];
    if (ratio > 2) return misfit("attention.compress_ratios", fmt::format("{} is none of 0, 1 and 2", ratio));
    if (std::ranges::binary_search(makers, layer)) made = ratio;
    if (ratio == 0 || ratio == made) continue;
    return misfit("kv_source_layer_ids",
                  fmt::format("no layer up to {} makes the compressed rows that it sees", layer));
  }
  const int64_t draft_experts = shape.integer("dspark.n_routed_experts");
  if (shape.integer("dspark.num_experts_per_tok") > draft_experts) {
    return misfit("dspark.num_experts_per_tok", fmt::format("there are {} experts", draft_experts));
  }
  return check_engrams(shape);
}

// The makers and choosers of rows are told by their tensors, and so are the numbers of the drafting head.
void add_known_deepseek41(const Shape& shape, KnownTensors& known) {
  for (const int64_t layer : shape.integers("kv_source_layer_ids")) {
    known.push_back({fmt::format("blk.{}.attn_compressor_kv.weight", layer), {1}});
  }
  for (const int64_t layer : shape.integers("index_source_layer_ids")) {
    known.push_back({fmt::format("blk.{}.indexer.attn_q_b.weight", layer), {1}});
  }
  const int64_t stages = shape.integer("dspark.stage_count");
  if (stages == 0) return;
  known.push_back({"mtp.0.main_proj.weight", {1}});
  known.push_back({"mtp.0.ffn_gate_inp.weight", {1, shape.integer("dspark.n_routed_experts")}});
  known.push_back(
      {fmt::format("mtp.{}.markov_head.markov_w1.weight", stages - 1), {shape.integer("dspark.markov_rank"), 1}});
  known.push_back({fmt::format("mtp.{}.confidence_head.proj.weight", stages - 1), {1}});
}

}  // namespace cairn::synth
