#include "engine/scheduling/stride.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cairn::engine {

void Stride::set_wanting(const Classes& wanting) {
  // Smallest pass of the classes that wanted something before and still do.
  double smallest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kPriorities; ++i) {
    if (wanting[i] && wanting_[i]) smallest = std::min(smallest, pass_[i]);
  }
  // If there is none, the class that was served last sets the pass.
  if (std::isinf(smallest)) smallest = *std::ranges::max_element(pass_);
  for (int i = 0; i < kPriorities; ++i) {
    if (wanting[i] && !wanting_[i]) pass_[i] = std::max(pass_[i], smallest);
  }
  wanting_ = wanting;
  const double base = *std::ranges::min_element(pass_);  // subtracted, so that passes stay bounded
  for (double& pass : pass_) pass -= base;
}

int Stride::next(const Classes& candidates) const {
  int best = -1;
  for (int i = 0; i < kPriorities; ++i) {
    if (candidates[i] && (best < 0 || pass_[i] < pass_[best])) best = i;
  }
  return best;
}

Priority Stride::take_one(const Classes& wanting) {
  set_wanting(wanting);
  const int priority = next(wanting);
  charge(priority, 1);
  return static_cast<Priority>(priority);
}

}  // namespace cairn::engine
