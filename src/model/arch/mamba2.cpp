#include "model/arch/table.h"

namespace cairn::model {

// Mamba 2: layers of a scan alone, without attention, positions or feed-forward.
Result<void> read_mamba2_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_state_config(keys, config));
  mix_otherwise_by(Mixer::kMamba2, config);
  return {};
}

}  // namespace cairn::model
