#include "chat/constraints/repetition_loop.h"

#include <algorithm>

namespace cairn::chat {

int32_t RepetitionDetector::push(TokenId token) {
  int32_t longest = 0;
  const size_t periods = std::min(count_, kCycleTokensMax);
  for (size_t period = 1; period <= periods; ++period) {
    int32_t& run = runs_[period - 1];
    run = recent_[(count_ - period) % kCycleTokensMax] == token ? run + 1 : 0;
    // The first pass through the cycle repeats nothing yet.
    const auto length = static_cast<int32_t>(period);
    if (run >= (kCycleRepeats - 1) * length) longest = std::max(longest, run + length);
  }
  recent_[count_ % kCycleTokensMax] = token;
  ++count_;
  return longest;
}

}  // namespace cairn::chat
