#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// EXAONE 4: norms only after attention and feed-forward. The large model has windows in three of four layers; the
// fourth knows no positions.
Result<void> read_exaone4_config(const MetadataReader& keys, DecoderConfig& config) {
  // The 32B model, known by its layers, has windows even if its file does not name them.
  constexpr size_t kLayers32B = 64;
  constexpr int64_t kWindow32B = 4'096, kPeriod = 4;
  config.residual.pre_norms = false;
  config.residual.post_norms = true;
  config.qk_norm = QkNorm::kPerHead;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  const int64_t missing = config.layers.size() == kLayers32B ? kWindow32B : 0;
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", missing, 0, kContextMax));
  if (window == 0) return {};
  for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  return read_windows_config(keys, window, kPeriod, 0, config);
}

}  // namespace cairn::model
