// Fuzzes files of log-probabilities: any bytes give an error with a message, or a file of which every token and record
// can be read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "perplexity/logits_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = cairn::perplexity::LogitsFile::from_bytes(std::as_bytes(std::span(data, size)));
  if (!file) {
    if (file.error().message.empty()) __builtin_trap();
    return 0;
  }
  const cairn::perplexity::LogitsShape& shape = file->shape();
  if (static_cast<int64_t>(file->tokens().size()) != int64_t{shape.windows} * shape.window_tokens) __builtin_trap();
  for (int64_t position = 0; position < shape.positions(); ++position) {
    const auto record = file->record(position);
    if (!record) continue;
    volatile float sum = 0;
    for (int64_t entry = 0; entry < shape.vocabulary; ++entry) sum = sum + record->log_probability(entry);
  }
  return 0;
}
