/// The activations of Backend::gate. Additions and products that a compiler could fuse are written with intrinsics,
/// here and wherever a result must not depend on which kernel computes it.
#pragma once

#include "kernels/operation_params.h"

namespace cairn::kernels::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / __fadd_rn(expf(-x), 1.0f); }

// x / (1 + e), e >= 0; exact to two units in the last place, and 0 if e is beyond 2^126.
__device__ inline float divide_by_one_and(float e, float x) { return __fdividef(x, __fadd_rn(e, 1.0f)); }

__device__ inline float silu(float x) { return divide_by_one_and(expf(-x), x); }

// 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ inline float gelu_tanh(float x) {
  const float u = x * __fmaf_rn(x * x, 0.0713548162726f, 1.59576912161f);
  return divide_by_one_and(expf(-u), x);
}

// 0.5 x (1 + erf(x / sqrt(2))), without the cancellation that 1 + erf has for negative x.
__device__ inline float gelu_erf(float x) { return x * (0.5f * erfcf(-0.707106781f * x)); }

__device__ inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

__device__ inline float clamped_swiglu(float a, float u) {
  a = a > 7.0f ? 7.0f : a;
  u = u < -7.0f ? -7.0f : u;
  u = u > 7.0f ? 7.0f : u;
  return __fmul_rn(divide_by_one_and(expf(__fmul_rn(a, -1.702f)), a), __fadd_rn(u, 1.0f));
}

/// An activation that is a function of the gate alone.
template <Activation kActivation>
__device__ float activate(float x) {
  if constexpr (kActivation == Activation::kSilu) return silu(x);
  if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh(x);
  if constexpr (kActivation == Activation::kGeluErf) return gelu_erf(x);
  if constexpr (kActivation == Activation::kRelu) return relu(x);
  if constexpr (kActivation == Activation::kReluSquared) return relu(x) * relu(x);
  if constexpr (kActivation == Activation::kSigmoid) return sigmoid(x);
}

/// Calls f.operator()<activation>().
template <class F>
void visit_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::kSilu:
      return f.template operator()<Activation::kSilu>();
    case Activation::kGeluTanh:
      return f.template operator()<Activation::kGeluTanh>();
    case Activation::kGeluErf:
      return f.template operator()<Activation::kGeluErf>();
    case Activation::kRelu:
      return f.template operator()<Activation::kRelu>();
    case Activation::kReluSquared:
      return f.template operator()<Activation::kReluSquared>();
    case Activation::kSigmoid:
      return f.template operator()<Activation::kSigmoid>();
    case Activation::kClampedSwiglu:
      return f.template operator()<Activation::kClampedSwiglu>();
  }
}

}  // namespace cairn::kernels::cuda
