/// Horizontal sums of many vectors at once, written once over an ISA's vectors. Each vector's lanes are added in the
/// same tree: the upper half to the lower one, and so on.
#pragma once

#include <cstddef>
#include <utility>  // only used in types: a function would carry the ISA's code

namespace cairn::kernels::cpu {
namespace {

/// V is the ISA's Vector.
template <class V>
class LaneSums {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;

 public:
  /// From vectors that have kLanes / (2 * kHalf) sums each, makes half as many vectors with twice the sums, in order.
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
  /// In each run of 2 * kHalf lanes: first those of `a`, its first half plus its second, then the same of `b`.
  template <int kHalf, size_t... kLane>
  static F add_halves(F a, F b, std::index_sequence<kLane...>) {
    return __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
           __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
