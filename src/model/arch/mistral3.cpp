#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Ministral 3 and Mistral Large 3: llama with queries that grow with the position.
Result<void> describe_mistral3(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_llama(keys, description));
  return describe_temperature(keys, 0, description);
}

}  // namespace cairn
