/// The loops over a block of logits that cost most of a sampled token, compiled for each width of vectors. Every one of
/// them does the same operations on the same numbers in the same order: the bits do not depend on the processor.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace cairn {

struct BlockLoops {
  std::string_view name;
  /// The largest of n logits; -infinity if there is none. NaN never wins.
  float (*largest)(const float* logits, size_t n);
  /// weights[i] = exp((logits[i] - largest) / temperature), as scan_weights has it. Returns their sum.
  double (*weigh)(const float* logits, size_t n, float largest, float temperature, float* weights);
};

/// Those that this processor runs, the widest one first.
std::span<const BlockLoops> usable_block_loops();

}  // namespace cairn
