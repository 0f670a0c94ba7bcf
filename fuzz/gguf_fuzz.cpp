// Fuzzes GGUF files: any bytes give an error, or a file of which every value and tensor can be read. Seeds: small model
// files.
#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/reader.h"
#include "gguf/walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto reader = cairn::gguf::Reader::from_bytes(std::as_bytes(std::span(data, size)));
  if (reader) {
    volatile uint64_t sum = cairn::gguf::walk(*reader);
    (void)sum;
  } else if (reader.error().message.empty()) {
    __builtin_trap();
  }
  return 0;
}
