/// Chooses one of several types for each tensor, so that all of them take at most so many bytes and do as little harm
/// as possible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"

namespace cairn::calibrate {

struct TypeOption {
  TensorType type = TensorType::kF16;
  int64_t bytes = 0;
  double harm = 0;
};

/// The number of an option for each tensor, of which none is empty. Begins with the smallest options and takes, again
/// and again, the step to a larger one that saves most harm for each byte, as long as it fits: no choice of that many
/// bytes or less has less harm, but for the last step that did not fit. Errors: kInvalidArgument, with the bytes of the
/// smallest options, if these are too many already.
Result<std::vector<size_t>> allocate(std::span<const std::vector<TypeOption>> tensors, int64_t bytes);

}  // namespace cairn::calibrate
