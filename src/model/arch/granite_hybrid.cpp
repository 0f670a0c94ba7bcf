#include "model/arch/table.h"

namespace cairn::model {

// Granite 4 hybrids, dense and mixtures: Mamba 2 in most layers, each with a feed-forward; the scales are Granite's.
Result<void> read_granite_hybrid_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_granite_config(keys, config));
  CAIRN_TRY_VOID(read_state_config(keys, config));
  mix_otherwise_by(Mixer::kMamba2, config);
  // Dense files say that there are no experts, and how wide the one for all rows would be: it is the feed-forward.
  if (!config.experts) {
    for (const char* key : {"expert_used_count", "expert_shared_feed_forward_length"}) keys.mark_read(key);
  }
  return {};
}

}  // namespace cairn::model
