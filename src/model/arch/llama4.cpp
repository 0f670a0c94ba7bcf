#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

namespace {

// One expert for each row, which is multiplied by the weight first, beside another for all rows.
Result<void> read_llama4_experts(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_experts_config(keys, false, config));
  if (!config.experts) return {};
  CAIRN_TRY_VOID(read_expert_step_config(keys, config));
  CAIRN_TRY_VOID(read_routing_config(keys, {.score = kernels::RouteScore::kSigmoid}, config));
  MoeConfig& experts = *config.experts;
  if (experts.route.used != 1) {
    return fail(Code::kUnsupported, "{} is {}; supported is 1", keys.full("expert_used_count"), experts.route.used);
  }
  experts.weighted_inputs = true;
  if (experts.shared_width == 0) experts.shared_width = experts.width;
  return {};
}

}  // namespace

// Llama 4: three of four layers have a rope, windows at the multiples of 8,192 positions and, in the smaller model,
// normalised queries and keys. The fourth knows no positions, and its queries grow with them.
Result<void> read_llama4_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr int64_t kWindow = 8'192, kPeriod = 4;
  constexpr int32_t kExpertsOfLarger = 128;  // by which alone it is known: it has none of these norms
  CAIRN_TRY_VOID(read_llama4_experts(keys, config));
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  if (!config.experts || config.experts->route.experts != kExpertsOfLarger) {
    config.qk_norm = QkNorm::kPerHeadUnweighted;
    config.qk_norm_after_rope = true;
  }
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", kWindow, 0, kContextMax));
  if (window == 0) return {};
  for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  CAIRN_TRY_VOID(read_windows_config(keys, window, kPeriod, 0, config));
  config.chunked_windows = true;
  for (LayerConfig& layer : config.layers) {
    layer.qk_norm = layer.rope != kNoRope;
    layer.temperature = layer.rope == kNoRope;
  }
  config.temperature_scale = 0.1f;
  config.temperature_length = static_cast<int32_t>(kWindow);
  config.temperature_offset = 1;
  return {};
}

}  // namespace cairn::model
