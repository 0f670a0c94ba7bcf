/// The activations of Backend::gate. Additions and products that a compiler could fuse are written with intrinsics,
/// here and wherever a result must not depend on which kernel computes it.
#pragma once

#include "kernels/operation_params.h"

namespace cairn::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / __fadd_rn(expf(-x), 1.0f); }

// 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ inline float gelu_tanh(float x) {
  const float u = x * __fmaf_rn(x * x, 0.0713548162726f, 1.59576912161f);
  return x / __fadd_rn(expf(-u), 1.0f);
}

// 0.5 x (1 + erf(x / sqrt(2))), without the cancellation that 1 + erf has for negative x.
__device__ inline float gelu_erf(float x) { return x * (0.5f * erfcf(-0.707106781f * x)); }

__device__ inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

__device__ inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return x / __fadd_rn(expf(-x), 1.0f);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kGeluErf:
      return gelu_erf(x);
    case Activation::kRelu:
      return relu(x);
    case Activation::kReluSquared:
      return relu(x) * relu(x);
  }
  return x;
}

}  // namespace cairn::cuda
