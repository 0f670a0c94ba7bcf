/// Detects an answer that repeats the same tokens endlessly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace cairn::chat {

inline constexpr size_t kCycleTokensMax = 1'024;  ///< longest cycle that is detected
inline constexpr int32_t kCycleRepeats = 4;       ///< how often a cycle must have been written

/// Takes O(kCycleTokensMax) time per token, a few hundred nanoseconds.
class RepetitionDetector {
 public:
  RepetitionDetector() : recent_(kCycleTokensMax), runs_(kCycleTokensMax) {}

  /// Returns the number of tokens at the end of the answer that repeat one cycle at least kCycleRepeats times; 0 if
  /// there are none. The cycle that has gone on for longest counts.
  int32_t push(TokenId token);

 private:
  std::vector<TokenId> recent_;  // ring buffer; the token i steps ago is at (count_ - i) % size
  std::vector<int32_t> runs_;    // [p - 1]: how many tokens in a row were equal to the one p tokens earlier
  size_t count_ = 0;
};

}  // namespace cairn::chat
