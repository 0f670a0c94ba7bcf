/// Looks for weights that are not finite, which no working model has: a damaged file, or one that was badly converted.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convert/contents.h"
#include "gguf/reader.h"

namespace cairn::convert {

/// A tensor with weights that are infinite or no numbers, in floats or by the scale of their block.
struct BadTensor {
  std::string_view name;
  int64_t weights = 0;  ///< how many are not finite
  int64_t row = 0;      ///< of the first one
  int64_t column = 0;
  float value = 0;
};

struct WeightCheck {
  std::vector<BadTensor> bad;  ///< in the order of the file
  int64_t tensors = 0;         ///< that were checked
  int64_t weights = 0;
};

/// Decodes every weight of every tensor whose type can be decoded (integers cannot be wrong in this way). `threads` 0:
/// one per usable core. The file outlives the result.
WeightCheck check_weights(const gguf::Reader& file, int threads, const OnCopy& on_read = {});

}  // namespace cairn::convert
