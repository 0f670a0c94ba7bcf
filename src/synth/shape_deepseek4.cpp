// DeepSeek V4 and V4.1: what follows from other keys, and what must fit together.
#include <algorithm>
#include <functional>
#include <numeric>
#include <ranges>
#include <utility>

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

}  // namespace

void Shape::complete_deepseek4() {
  Key* layers = find("block_count");
  const std::vector<int64_t> given = integers("attention.compress_ratios");
  if (!given.empty() && !layers->is_chosen) layers->values = {static_cast<double>(given.size())};
  // MTP modules are additional to the layers of a shape, and count as blocks in files.
  const int64_t predicting = integer("nextn_predict_layers");
  if (given.empty() && !layers->is_chosen) layers->values[0] += static_cast<double>(predicting);
  const int64_t main_layers = std::min(integer("block_count"), kLayersMax) - predicting;
  std::vector<double> ratios;
  for (int64_t layer = 0; layer < main_layers + predicting; ++layer) {
    const int64_t later = layer % 2 == 0 ? kOverlapRatio : kPlainRatio;
    ratios.push_back(static_cast<double>(layer >= main_layers ? 0 : layer < 2 ? first_ratio_ : later));
  }
  const size_t count = ratios.size();
  derive("attention.compress_ratios", std::move(ratios));
  derive("swiglu_clamp_exp", std::vector<double>(count, kSwigluClamp));
  derive("hash_layer_count", {static_cast<double>(std::clamp<int64_t>(main_layers, 0, kHashLayers))});
}

void Shape::complete_deepseek41() {
  Key* layers = find("block_count");
  const std::vector<int64_t> given = integers("attention.compress_ratios");
  if (!given.empty() && !layers->is_chosen) layers->values = {static_cast<double>(given.size())};
  const int64_t count = std::clamp<int64_t>(integer("block_count"), 0, kLayersMax);
  std::vector<double> ratios;
  ratios.reserve(static_cast<size_t>(count));
  for (int64_t layer = 0; layer < count; ++layer) ratios.push_back(layer < 2 ? 0 : layer < count / 2 ? 2 : 1);
  derive("attention.compress_ratios", std::move(ratios));
  derive("swiglu_clamp_exp", std::vector<double>(static_cast<size_t>(count), kSwigluClamp));
  Sources sources = sources_of(integers("attention.compress_ratios"));
  derive("kv_source_layer_ids", std::move(sources.makers));
  derive("index_source_layer_ids", std::move(sources.choosers));
  complete_engrams(count);
  if (integer("dspark.stage_count") > 0) complete_dspark(count);
}

void Shape::complete_engrams(int64_t layers) {
  std::vector<double> ids;
  if (layers > 1) ids.push_back(1);
  const int64_t second = layers * kSecondEngram41 / kLayers41;
  if (second > 1) ids.push_back(static_cast<double>(second));
  derive("engram.layer_ids", std::move(ids));
  const int64_t tokens = std::min(integer("vocab_size"), kWidthMax);
  derive("engram.compressed_vocab_size", {static_cast<double>(std::max<int64_t>(tokens * kClasses41 / kTokens41, 1))});
  const int64_t classes = std::clamp<int64_t>(integer("engram.compressed_vocab_size"), 1, kWidthMax);
  std::vector<double> map;
  map.reserve(static_cast<size_t>(tokens));
  for (int64_t token = 0; token < tokens; ++token) map.push_back(static_cast<double>(token % classes));
  derive("engram.token_map", std::move(map));
  const int64_t engrams = std::ssize(integers("engram.layer_ids"));
  const int64_t order = std::clamp<int64_t>(integer("engram.max_ngram_size"), 1, kEngramOrderMax);
  const int64_t own = (order - 1) * std::clamp<int64_t>(integer("engram.head_count"), 0, kEngramHeadsMax);
  derive("engram.multipliers", multipliers_of(classes, engrams * order));
  Key* primes = find("engram.primes");
  if (primes->values.size() == 1 && primes->values[0] <= UINT32_MAX) {
    primes->values = primes_above(integer("engram.primes"), engrams * own);
  }
  std::vector<double> offsets;
  double offset = 0;
  for (size_t i = 0; i < primes->values.size(); ++i) {
    if (own > 0 && i % static_cast<size_t>(own) == 0) offset = 0;
    offsets.push_back(offset);
    offset += primes->values[i];
  }
  derive("engram.offsets", std::move(offsets));
}

void Shape::complete_dspark(int64_t layers) {
  const auto number = [this](std::string_view key, int64_t value) { derive(key, {static_cast<double>(value)}); };
  number("dspark.block_size", 5);
  number("dspark.markov_rank", 256);
  number("dspark.noise_token_id", std::min(kNoise41, integer("vocab_size") - 1));
  std::vector<double> targets;
  for (int64_t layer = std::max<int64_t>(layers - kDraftTargets, 0); layer < layers; ++layer) {
    targets.push_back(static_cast<double>(layer));
  }
  derive("dspark.target_layer_ids", std::move(targets));
  number("dspark.n_routed_experts", std::max<int64_t>(integer("expert_count") / 3, 1));
  number("dspark.num_experts_per_tok",
         std::clamp<int64_t>(integer("expert_used_count") / 2, 1, integer("dspark.n_routed_experts")));
}

Result<void> Shape::check_ratios() const {
  const int64_t layers = integer("block_count") - integer("nextn_predict_layers");
  const std::vector<int64_t> ratios = integers("attention.compress_ratios");
  if (std::ranges::any_of(ratios | std::views::drop(layers), [](int64_t ratio) { return ratio != 0; })) {
    return misfit("attention.compress_ratios", "blocks that predict compress nothing: their ratio is 0");
  }
  for (const int64_t ratio : ratios) {
    if (ratio == 0 || ratio == kOverlapRatio || ratio == kPlainRatio) continue;
    return misfit("attention.compress_ratios",
                  fmt::format("{} is none of 0, {} and {}", ratio, kOverlapRatio, kPlainRatio));
  }
  return {};
}

// Numbers of layers that are in a list must be those of layers, in ascending order.
Result<void> Shape::check_layer_ids(std::string_view key) const {
  const std::vector<int64_t> ids = integers(key);
  if (!std::ranges::is_sorted(ids, std::less_equal<>())) return misfit(key, "its numbers of layers must ascend");
  if (ids.empty() || ids.back() < integer("block_count")) return {};
  return misfit(key, fmt::format("it names layer {}, but there are {}", ids.back(), integer("block_count")));
}

Result<void> Shape::check_deepseek41() const {
  for (const char* key :
       {"kv_source_layer_ids", "index_source_layer_ids", "engram.layer_ids", "dspark.target_layer_ids"}) {
    CAIRN_TRY_VOID(check_layer_ids(key));
  }
  const std::vector<int64_t> ratios = integers("attention.compress_ratios");
  int64_t made = 0;  // ratio of the rows that a layer sees
  for (int64_t layer = 0; layer < std::ssize(ratios); ++layer) {
    const int64_t ratio = ratios[static_cast<size_t>(layer)];
    if (ratio > 2) return misfit("attention.compress_ratios", fmt::format("{} is none of 0, 1 and 2", ratio));
    if (has("kv_source_layer_ids", layer)) made = ratio;
    if (ratio == 0 || ratio == made) continue;
    return misfit("kv_source_layer_ids",
                  fmt::format("no layer up to {} makes the compressed rows that it sees", layer));
  }
  const int64_t blocks = integer("attention.indexer.candidate_blocks");
  if ((blocks - 1) * integer("attention.indexer.candidate_block_size") < integer("attention.indexer.top_k")) {
    return misfit("attention.indexer.candidate_blocks",
                  fmt::format("{} blocks may have fewer rows than the {} that are chosen", blocks,
                              integer("attention.indexer.top_k")));
  }
  if (integer("dspark.num_experts_per_tok") > integer("dspark.n_routed_experts")) {
    return misfit("dspark.num_experts_per_tok",
                  fmt::format("there are {} experts", integer("dspark.n_routed_experts")));
  }
  if (integer("dspark.noise_token_id") >= integer("vocab_size")) {
    return misfit("dspark.noise_token_id", fmt::format("there are {} tokens", integer("vocab_size")));
  }
  return check_engrams();
}

Result<void> Shape::check_engrams() const {
  const int64_t engrams = std::ssize(integers("engram.layer_ids")), tokens = integer("vocab_size");
  const int64_t order = integer("engram.max_ngram_size"), heads = integer("engram.head_count");
  if (order < 2 || order > kEngramOrderMax) {
    return misfit("engram.max_ngram_size", fmt::format("{} must be in 2 .. {}", order, kEngramOrderMax));
  }
  if (heads > kEngramHeadsMax) {
    return misfit("engram.head_count", fmt::format("{} must be in 1 .. {}", heads, kEngramHeadsMax));
  }
  if (integer("engram.key_length") % kScaleBlock != 0) {
    return misfit("engram.key_length", fmt::format("it must be a multiple of {}", kScaleBlock));
  }
  if (integer("engram.pad_id") >= tokens) return misfit("engram.pad_id", fmt::format("there are {} tokens", tokens));
  const std::pair<const char*, int64_t> sizes[] = {{"engram.token_map", tokens},
                                                   {"engram.multipliers", engrams * order},
                                                   {"engram.primes", engrams * (order - 1) * heads},
                                                   {"engram.offsets", engrams * (order - 1) * heads}};
  for (const auto& [key, size] : sizes) {
    const int64_t there = std::ssize(integers(key));
    if (there != size) return misfit(key, fmt::format("{} values, but {} are needed", there, size));
  }
  const std::vector<int64_t> map = integers("engram.token_map");
  const int64_t classes = integer("engram.compressed_vocab_size");
  if (!map.empty() && std::ranges::max(map) >= std::min(classes, tokens)) {
    return misfit("engram.token_map", fmt::format("it names class {}, but there are {}, and {} tokens",
                                                  std::ranges::max(map), classes, tokens));
  }
  const std::vector<int64_t> multipliers = integers("engram.multipliers");
  if (!multipliers.empty() && std::ranges::max(multipliers) > INT64_MAX / std::max<int64_t>(classes, 1)) {
    return misfit("engram.multipliers", "a product with a class must stay below 2^63");
  }
  if (has("engram.primes", 0)) return misfit("engram.primes", "0 rows cannot be chosen from");
  return {};
}

}  // namespace cairn::synth
