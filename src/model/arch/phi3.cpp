#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

namespace {
// Phi 3 mini and medium for 4k have windows that the first files of them do not name; later models name theirs, or 0.
constexpr int32_t kContext4k = 4'096;
constexpr int64_t kWindow4k = 2'047;
}  // namespace

// Phi 3 and 4: gate and up in one matrix, queries, keys and values in another, LongRoPE, windows in all layers.
Result<void> read_phi3_config(const MetadataReader& keys, DecoderConfig& config) {
  config.feed_forward.fused = true;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  const int64_t unnamed = config.context_trained == kContext4k ? kWindow4k : 0;
  return read_window_everywhere_config(keys, unnamed, config);
}

}  // namespace cairn::model
