/// The hot loops over a block of logits, compiled for each vector width. All versions do the same operations on the
/// same numbers in the same order, so the bits do not depend on the processor.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace cairn::sampling {

struct BlockLoops {
  std::string_view name;
  /// The largest of n logits; -infinity if there is none. NaN never wins.
  float (*largest)(const float* logits, size_t n);
  /// weights[i] = exp((logits[i] - largest) / temperature), as in scan_weights. Returns their sum.
  double (*weigh)(const float* logits, size_t n, float largest, float temperature, float* weights);
};

/// The versions that this processor can run, the widest first.
std::span<const BlockLoops> usable_block_loops();

}  // namespace cairn::sampling
