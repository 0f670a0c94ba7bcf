#include "model/arch/table.h"

namespace cairn::model {

// Command R7B and A: Command R with windows in three of four layers; the fourth knows no positions.
Result<void> read_cohere2_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr int64_t kWindow = 4'096, kPeriod = 4;
  CAIRN_TRY_VOID(read_command_r_config(keys, config));
  for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", kWindow, 1, kContextMax));
  return read_windows_config(keys, window, kPeriod, 0, config);
}

}  // namespace cairn::model
