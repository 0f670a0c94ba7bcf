#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Phi 3.5 MoE and SlimMoE: layer norms with biases, queries, keys, values and outputs with biases, LongRoPE, and two
// experts in every layer that a sparse mixer weighs.
Result<void> read_phimoe_config(const MetadataReader& keys, DecoderConfig& config) {
  // What no key holds: the published models' router_jitter_noise, and their short_mscale and long_mscale. The factor
  // of attention that files have is one that the converter computes for Phi 3.
  constexpr float kJitter = 0.01F;
  constexpr float kMagnitude = 1.243163121016122F;
  constexpr int32_t kUsed = 2;
  config.norm.kind = NormKind::kLayerNorm;
  config.norm.biases = true;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  if (rope.short_context > 0) rope.magnitude = kMagnitude;
  config.ropes.push_back(std::move(rope));
  CAIRN_TRY_VOID(read_window_everywhere_config(keys, 0, config));
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  kernels::RouteParams& route = config.experts->route;
  if (route.used != kUsed) {
    return fail_at("key " + keys.full("expert_used_count"), Code::kUnsupported,
                   "{} is {}, but a sparse mixer chooses {} experts", keys.full("expert_used_count"), route.used,
                   kUsed);
  }
  route.score = kernels::RouteScore::kSparseMixer;
  route.jitter = kJitter;
  return {};
}

}  // namespace cairn::model
