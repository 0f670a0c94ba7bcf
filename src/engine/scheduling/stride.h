/// Stride scheduling between priority classes (Waldspurger 1995): a class's pass grows by what it got divided by its
/// weight, and the smallest pass goes next.
#pragma once

#include <array>
#include <cstdint>

#include "engine/party.h"

namespace cairn::engine {

/// Weights for prompt rows and for admissions, while both classes want some.
inline constexpr std::array<int32_t, kPriorities> kPriorityWeights = {4, 1};
/// Divides something between priority classes by their weights. A class that wanted nothing for a while returns on
/// equal terms: it has saved nothing up.
class Stride {
 public:
  using Classes = std::array<bool, kPriorities>;
  /// Sets which classes want something from now on.
  void set_wanting(const Classes& wanting);
  /// The class of `candidates` whose turn it is; at least one is set. On a tie the first.
  int next(const Classes& candidates) const;
  void charge(int priority, double amount) { pass_[priority] += amount / kPriorityWeights[priority]; }
  /// set_wanting, next and charge for one unit: returns the class whose turn it is, which is charged with it.
  Priority take_one(const Classes& wanting);

 private:
  std::array<double, kPriorities> pass_{};
  Classes wanting_{};
};

}  // namespace cairn::engine
