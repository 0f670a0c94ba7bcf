/// Merging of softmax-weighted sums over parts of the positions. For host and device, with the same roundings on both
/// except for the exponential's.
#pragma once

#include <cmath>

#include "kernels/cuda/attention/split_plan.h"

namespace cairn::kernels::cuda {

/// The factors of two sums that are merged, and the larger of their largest scores.
struct Joint {
  float largest;
  float keep;  ///< factor of the sum so far
  float take;  ///< factor of the added sum
};
CAIRN_HOST_DEVICE inline Joint joint_of(float largest, float other) {
  const float most = other > largest ? other : largest;
  return {most, expf(largest - most), expf(other - most)};
}
CAIRN_HOST_DEVICE inline float joined(float keep, float value, float take, float other) {
  return fmaf(keep, value, take * other);
}

/// The factor on the merged values: 1 / (sum + exp(sink - largest)). A sink of -infinity means no sink.
CAIRN_HOST_DEVICE inline float finish_factor(float largest, float sum, float sink) {
  // Relative to the larger of the two, as one of the exponentials could otherwise be infinite.
  const float most = sink > largest ? sink : largest;
  const float here = expf(largest - most);
  return here / fmaf(here, sum, expf(sink - most));
}

}  // namespace cairn::kernels::cuda
