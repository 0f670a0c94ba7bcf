// Fuzzes importance matrices of both forms: any bytes give an error with a message, or entries whose sums and counts
// fit each other and which tensors can be asked for. Seeds: one of each form.
#include <cstddef>
#include <cstdint>
#include <span>

#include "convert/importance.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn;
  const auto matrix = convert::ImportanceMatrix::from_bytes(std::as_bytes(std::span(data, size)));
  if (!matrix) {
    if (matrix.error().message.empty()) __builtin_trap();
    return 0;
  }
  for (const auto& [name, entry] : matrix->entries) {
    const auto matrices = static_cast<int64_t>(entry.counts.size());
    const auto columns = static_cast<int64_t>(entry.sums.size()) / matrices;
    const gguf::Tensor tensor{.name = name, .type = TensorType::kF32, .shape = {columns, 1, matrices}, .bytes = {}};
    const auto importance = matrix->of(tensor);
    if (!importance || (!importance->means.empty() && importance->means.size() != entry.sums.size())) __builtin_trap();
  }
  convert::ImportanceMatrix sum = *matrix;
  if (!sum.add(*matrix)) __builtin_trap();
  return 0;
}
