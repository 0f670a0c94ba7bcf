#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Ministral 3 and Mistral Large 3: llama with queries that grow with the position.
Result<void> read_mistral3_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_llama_config(keys, config));
  return read_temperature_config(keys, 0, config);
}

}  // namespace cairn::model
