/// Joining softmax-weighted sums over parts of the positions. For host and device, with the same roundings on both but
/// for the exponential's.
#pragma once

#include <cmath>

#include "kernels/cuda/attention/split_plan.h"

namespace cairn::cuda {

/// What two sums are multiplied by when they are joined, and the largest score of both.
struct Joint {
  float largest;
  float keep;  ///< of the sum so far
  float take;  ///< of the one that is added
};
CAIRN_HOST_DEVICE inline Joint joint_of(float largest, float other) {
  const float most = other > largest ? other : largest;
  return {most, expf(largest - most), expf(other - most)};
}
CAIRN_HOST_DEVICE inline float joined(float keep, float value, float take, float other) {
  return fmaf(keep, value, take * other);
}

/// What the joined values are multiplied by: 1 / (sum + exp(sink - largest)). A sink of -infinity is none.
CAIRN_HOST_DEVICE inline float finish_factor(float largest, float sum, float sink) {
  // Relative to the larger of both, as one of the two exponentials could be infinite otherwise.
  const float most = sink > largest ? sink : largest;
  const float here = expf(largest - most);
  return here / fmaf(here, sum, expf(sink - most));
}

}  // namespace cairn::cuda
