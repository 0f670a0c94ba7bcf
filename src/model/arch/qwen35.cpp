#include <algorithm>
#include <vector>

#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

namespace {

constexpr int64_t kAttentionInterval = 4;

// Which layers are recurrent: all but the last of each interval, unless the file has a list.
Result<void> read_mixers_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr const char* kList = "attention.recurrent_layers";
  CAIRN_TRY(const int64_t interval, keys.integer_or("full_attention_interval", kAttentionInterval, 1, kLayersMax));
  std::vector<bool> recurrent;
  if (keys.contains(kList)) {
    CAIRN_TRY(recurrent, keys.flag_per_layer(kList, std::ssize(config.layers)));
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const bool recurs = recurrent.empty() ? static_cast<int64_t>(i + 1) % interval != 0 : recurrent[i];
    config.layers[i].mixer = recurs ? Mixer::kGatedDeltaNet : Mixer::kAttention;
  }
  return {};
}

Result<void> read_routed_config(const MetadataReader& keys, DecoderConfig& config) {
  if (keys.architecture() == "qwen35") return {};
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  MoeConfig& experts = *config.experts;
  if (experts.width == 0) {
    CAIRN_TRY(experts.width, keys.integer("expert_feed_forward_length", 1, kFeedForwardMax));
  }
  CAIRN_TRY_VOID(read_routing_config(keys, {.renormalise = true}, config));
  if (experts.shared_width == 0) experts.shared_width = experts.width;
  experts.shared_gated = true;
  return {};
}

// Pairs take turns at the three components of a position, which are the same in texts. A pair that no section counts
// takes a fourth, which is 0.
Result<void> read_sections_config(const MetadataReader& keys, RopeConfig& rope) {
  const char* key = "rope.dimension_sections";
  if (keys.architecture() == "qwen3next" && !keys.contains(key)) return {};
  CAIRN_TRY(const std::vector<int64_t> sections, keys.file().metadata().integers(keys.full(key)));
  const auto within = [](int64_t size) { return size >= 0 && size <= kHeadDimMax; };
  if (sections.size() != 4 || !std::ranges::all_of(sections, within)) {
    return fail_at("key " + keys.full(key), Code::kCorruptFile, "{} must be 4 numbers of pairs", keys.full(key));
  }
  const int64_t sum = sections[0] + sections[1] + sections[2] + sections[3];
  if (sum == 0) return {};
  for (size_t pair = 0; pair < rope.frequencies.size(); ++pair) {
    const int64_t sector = static_cast<int64_t>(pair) % sum;
    if (sector >= 3 * sections[sector % 3]) rope.frequencies[pair] = 0;
  }
  return {};
}

Result<void> read_delta_config(const MetadataReader& keys, bool strided_heads, DecoderConfig& config) {
  CAIRN_TRY_VOID(leave_out_mtp_layers(keys, config));
  CAIRN_TRY_VOID(read_state_config(keys, config));
  config.recurrent->strided_heads = strided_heads;
  CAIRN_TRY_VOID(read_mixers_config(keys, config));
  if (config.value_dim != config.key_dim) {
    return fail(Code::kCorruptFile, "{} is {}, but queries and their gates have the {} elements of {}",
                keys.full("attention.value_length"), config.value_dim, config.key_dim,
                keys.full("attention.key_length"));
  }
  config.gated_attention = true;
  config.qk_norm = QkNorm::kPerHead;
  config.feed_forward_norm = "post_attention_norm";
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  CAIRN_TRY_VOID(read_sections_config(keys, rope));
  config.ropes.push_back(std::move(rope));
  CAIRN_TRY_VOID(read_routed_config(keys, config));
  describe_mtp_layer(config);
  return {};
}

}  // namespace

// Qwen3-Next and Qwen3-Coder-Next: three of four layers are Gated DeltaNet, the fourth is attention with a gate.
Result<void> read_qwen3next_config(const MetadataReader& keys, DecoderConfig& config) {
  return read_delta_config(keys, false, config);
}

// Qwen 3.5, 3.6 and 3.8, dense and mixtures. The converter has changed the order of the value heads.
Result<void> read_qwen35_config(const MetadataReader& keys, DecoderConfig& config) {
  return read_delta_config(keys, true, config);
}

}  // namespace cairn::model
