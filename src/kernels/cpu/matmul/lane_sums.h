/// Sums of the lanes of many vectors at once, written once over an ISA's vectors. Each is added in one and the same
/// tree: the upper half of its lanes to the lower one, and so on.
#pragma once

#include <cstddef>
#include <utility>  // for types only: a function would carry the ISA's code

namespace cairn::cpu {
namespace {

/// V is the ISA's Vector.
template <class V>
class LaneSums {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;

 public:
  /// Vectors of kLanes / (2 * kHalf) sums each -> half as many with twice the sums, in order.
  template <int kHalf>
  static F add(const float (*sums)[kLanes]) {
    if constexpr (kHalf == kLanes) {
      return V::load(*sums);
    } else {
      constexpr int kVectors = kLanes / (2 * kHalf);
      return add_halves<kHalf>(add<2 * kHalf>(sums), add<2 * kHalf>(sums + kVectors),
                               std::make_index_sequence<kLanes>());
    }
  }

 private:
  /// Of each run of 2 * kHalf lanes, first those of `a`, its first half plus its second.
  template <int kHalf, size_t... kLane>
  static F add_halves(F a, F b, std::index_sequence<kLane...>) {
    return __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
           __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
  }
};

}  // namespace
}  // namespace cairn::cpu
