// Fuzzes what `cairn convert` reads of strangers' folders: headers of safetensors, and models of SentencePiece.
#include <cstddef>
#include <cstdint>
#include <span>

#include "convert/huggingface/safetensors.h"
#include "convert/huggingface/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto tensors = cairn::convert::parse_safetensors(bytes); tensors.has_value()) {
    for (const auto& [name, tensor] : *tensors) {
      const auto needed = tensor.elements() * cairn::convert::stored_type_bytes(tensor.type);
      if (tensor.bytes.size() != static_cast<size_t>(needed)) __builtin_trap();
    }
  }
  constexpr int64_t kTokens = 64;
  const auto vocabulary = cairn::convert::read_sentencepiece(bytes, kTokens);
  if (vocabulary.has_value() && vocabulary->tokens.size() != static_cast<size_t>(kTokens)) __builtin_trap();
  return 0;
}
