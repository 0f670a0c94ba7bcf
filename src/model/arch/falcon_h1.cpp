#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Falcon-H1: attention and Mamba 2 side by side in every layer. Its multipliers are in the weights of its files.
Result<void> read_falcon_h1_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_state_config(keys, config));
  config.recurrent->normed = keys.file().find_tensor("blk.0.ssm_norm.weight") != nullptr;
  for (LayerConfig& layer : config.layers) {
    if (layer.mixer == Mixer::kNone) {
      return fail_at("key " + keys.full("attention.head_count_kv"), Code::kCorruptFile,
                     "{} has no heads for a layer, but every layer has attention",
                     keys.full("attention.head_count_kv"));
    }
    layer.mixer = Mixer::kAttentionAndMamba2;
  }
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
