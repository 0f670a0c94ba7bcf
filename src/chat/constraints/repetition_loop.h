/// Whether an answer repeats itself without end: the same tokens, over and over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace cairn {

inline constexpr size_t kCycleTokensMax = 1'024;  ///< longest cycle that is seen
inline constexpr int32_t kCycleRepeats = 4;       ///< times that a cycle must have been written

/// Time per token O(kCycleTokensMax), a few hundred nanoseconds.
class RepetitionDetector {
 public:
  RepetitionDetector() : recent_(kCycleTokensMax), runs_(kCycleTokensMax) {}

  /// Tokens at the end of the answer that repeat one cycle, kCycleRepeats times or more; 0 if none does. The cycle that
  /// has gone on for longest counts.
  int32_t push(TokenId token);

 private:
  std::vector<TokenId> recent_;  // ring; the token i steps ago at (count_ - i) % size
  std::vector<int32_t> runs_;    // [p - 1]: how many tokens in a row were equal to that p before
  size_t count_ = 0;
};

}  // namespace cairn
