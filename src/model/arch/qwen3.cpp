#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Qwen 3: queries and keys are normalised head by head.
Result<void> read_qwen3_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_qwen2_config(keys, config));
  config.qk_norm = QkNorm::kPerHead;
  return {};
}

}  // namespace cairn::model
