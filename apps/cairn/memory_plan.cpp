#include "memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace cairn {
namespace {

// Sizes of the metadata that go into the plan: everything real is far below, and layers * heads * (key + value) fits.
constexpr int64_t kPlanSizeMax = 1 << 20;
constexpr int64_t kPlanContextMax = 1ll << 31;

Result<int64_t> plan_size(const gguf::Metadata& metadata, const std::string& key, std::optional<int64_t> missing) {
  if (!metadata.contains(key) && missing) return *missing;
  CAIRN_TRY(const int64_t size, metadata.integer(key));
  if (size < 0 || size > kPlanSizeMax) return fail(Code::kCorruptFile, "{} is {}, which cannot be", key, size);
  return size;
}

// One number per layer from a key that holds one number or one per layer.
Result<std::vector<int64_t>> per_layer(const gguf::Metadata& metadata, const std::string& key, int64_t layers,
                                       const std::vector<int64_t>& missing) {
  const gguf::Value* value = metadata.find(key);
  if (value == nullptr) return missing;
  if (value->type != gguf::ValueType::kArray) {
    CAIRN_TRY(const int64_t size, plan_size(metadata, key, std::nullopt));
    return std::vector<int64_t>(static_cast<size_t>(layers), size);
  }
  CAIRN_TRY(std::vector<int64_t> sizes, metadata.integers(key));
  if (static_cast<int64_t>(sizes.size()) < layers) {
    return fail(Code::kCorruptFile, "{} has {} numbers for {} layers", key, sizes.size(), layers);
  }
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0 || size > kPlanSizeMax; })) {
    return fail(Code::kCorruptFile, "{} has a number that cannot be", key);
  }
  return sizes;
}

// Which layers look at a window only, where the file says so layer by layer; else none.
std::vector<bool> window_layers(const gguf::Metadata& metadata, const std::string& arch, int64_t layers) {
  auto pattern = metadata.booleans(arch + ".attention.sliding_window_pattern");
  if (!pattern || static_cast<int64_t>(pattern->size()) < layers) return std::vector<bool>(static_cast<size_t>(layers));
  return *pattern;
}

void add_notes(const gguf::Metadata& metadata, const std::string& arch, KvPlan& plan) {
  if (const auto window = metadata.integer(arch + ".attention.sliding_window"); window && *window > 0) {
    plan.notes.push_back(fmt::format("layers with a sliding window keep {} tokens at most: less is needed", *window));
  }
  if (metadata.contains(arch + ".attention.key_length_mla")) {
    plan.notes.emplace_back("latent attention: one row per token and layer holds keys and values together");
  }
  if (metadata.contains(arch + ".attention.compress_ratios")) {
    plan.notes.emplace_back("older tokens are kept compressed: less is needed");
  }
  if (metadata.contains(arch + ".ssm.state_size") || metadata.contains(arch + ".shortconv.l_cache")) {
    plan.notes.emplace_back("recurrent layers keep a state of fixed size per conversation, not counted here");
  }
}

Result<KvPlan> plan_kv(const gguf::Metadata& metadata, const std::string& arch) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", arch, name); };
  CAIRN_TRY(const bool causal, metadata.boolean_or(key("attention.causal"), true));
  if (!causal) {
    KvPlan encoder;
    encoder.notes.emplace_back("an encoder: it keeps no keys and values between calls");
    return encoder;
  }
  CAIRN_TRY(const int64_t blocks, plan_size(metadata, key("block_count"), std::nullopt));
  CAIRN_TRY(const int64_t next_token_layers, plan_size(metadata, key("nextn_predict_layers"), 0));
  CAIRN_TRY(const int64_t shared, plan_size(metadata, key("attention.shared_kv_layers"), 0));
  CAIRN_TRY(const int64_t interval, plan_size(metadata, key("full_attention_interval"), 1));
  CAIRN_TRY(const int64_t embedding, plan_size(metadata, key("embedding_length"), std::nullopt));
  const int64_t layers = std::max<int64_t>(0, blocks - next_token_layers);
  const std::vector<int64_t> no_heads(static_cast<size_t>(layers), 0);
  CAIRN_TRY(const auto heads, per_layer(metadata, key("attention.head_count"), layers, no_heads));
  CAIRN_TRY(const auto heads_kv, per_layer(metadata, key("attention.head_count_kv"), layers, heads));
  CAIRN_TRY(const int64_t key_length, plan_size(metadata, key("attention.key_length"), 0));
  CAIRN_TRY(const int64_t value_length, plan_size(metadata, key("attention.value_length"), 0));
  CAIRN_TRY(const int64_t key_window, plan_size(metadata, key("attention.key_length_swa"), key_length));
  CAIRN_TRY(const int64_t value_window, plan_size(metadata, key("attention.value_length_swa"), value_length));
  // Latent attention keeps one row per token, in which the values lie inside the keys.
  const bool latent = metadata.contains(key("attention.key_length_mla"));
  const std::vector<bool> windowed = window_layers(metadata, arch, layers);

  KvPlan plan;
  for (int64_t layer = 0; layer < layers - shared; ++layer) {
    const auto i = static_cast<size_t>(layer);
    if (interval > 1 && (layer + 1) % interval != 0) continue;
    if (heads_kv[i] == 0) continue;
    const int64_t head_default = heads[i] > 0 ? embedding / heads[i] : 0;
    const int64_t wanted_key = windowed[i] ? key_window : key_length;
    const int64_t wanted_value = windowed[i] ? value_window : value_length;
    const int64_t head_key = wanted_key > 0 ? wanted_key : head_default;
    const int64_t head_value = latent ? 0 : wanted_value > 0 ? wanted_value : head_default;
    plan.elements_per_token += heads_kv[i] * (head_key + head_value);
    ++plan.layers;
  }
  add_notes(metadata, arch, plan);
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const gguf::Reader& file) {
  MemoryPlan plan;
  for (const gguf::Tensor& tensor : file.tensors()) plan.weight_bytes += static_cast<int64_t>(tensor.bytes.size());
  const auto arch = file.metadata().string("general.architecture");
  if (!arch) {
    plan.why_no_kv = arch.error().message;
    return plan;
  }
  const auto context = file.metadata().integer(fmt::format("{}.context_length", *arch));
  if (context && *context > 0 && *context <= kPlanContextMax) plan.context_tokens = *context;
  auto kv = plan_kv(file.metadata(), std::string(*arch));
  if (kv) {
    plan.kv = std::move(*kv);
  } else {
    plan.why_no_kv = kv.error().message;
  }
  return plan;
}

std::optional<int64_t> MemoryPlan::kv_bytes(int64_t tokens, int64_t element_bytes) const {
  int64_t bytes = 0;
  if (!kv || __builtin_mul_overflow(kv->elements_per_token * element_bytes, tokens, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace cairn
