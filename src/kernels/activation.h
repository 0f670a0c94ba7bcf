/// The functions between two products of a feed-forward, which every backend has.
#pragma once

namespace cairn::kernels {

enum class Activation {
  kSilu,
  kGeluTanh,
  kGeluErf,
  kRelu,
  kReluSquared,
  kSigmoid,
  kClampedSwiglu,  ///< of both factors: a sigmoid(1.702 a) (u + 1), a at most 7, u within -7 .. 7 (gpt-oss)
};
inline constexpr int kActivations = static_cast<int>(Activation::kClampedSwiglu) + 1;

}  // namespace cairn::kernels
