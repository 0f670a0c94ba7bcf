#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Ministral 3 and Mistral Large 3: llama with queries that grow with the position.
Result<void> describe_mistral3(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_llama(keys, description));
  CAIRN_TRY(description.temperature_scale, keys.number_or("attention.temperature_scale", 0));
  if (description.temperature_scale == 0) return {};
  CAIRN_TRY(const int64_t original,
            keys.integer_or("rope.scaling.original_context_length", description.context_trained, 1, kContextMax));
  CAIRN_TRY(description.temperature_length, keys.integer_or("attention.temperature_length", original, 1, kContextMax));
  return {};
}

}  // namespace cairn
