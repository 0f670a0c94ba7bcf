#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Qwen 1.5 to 2.5: llama with biases on queries, keys and values, and the other rotation.
Result<void> read_qwen2_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
