#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Llama 1 to 3, Mistral, Mixtral and what has their shape. The window of the first Mistral is in few files: the usual
// converter leaves it out.
Result<void> read_llama_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_experts_config(keys, false, config));
  if (config.experts) config.experts->route.renormalise = true;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return read_window_everywhere_config(keys, 0, config);
}

}  // namespace cairn::model
