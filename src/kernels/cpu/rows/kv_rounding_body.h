/// Rounds float32 to the types of keys and values, written once over an ISA's `Vector`.
#pragma once

#include <cstdint>

#include "quant/float_formats.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct KvRounding {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int64_t kLanes = V::kLanes;

  static void to_half(const float* x, int64_t n, uint16_t* out) {
    constexpr float kLargest = 65504.0f;
    auto saturate = [](F value) {
      value = value > kLargest ? V::set(kLargest) : value;
      return value < -kLargest ? V::set(-kLargest) : value;
    };
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(out + i, saturate(V::load(x + i)));
    if (i == n) return;
    uint16_t last[V::kLanes];
    V::store(last, saturate(V::load_some(x + i, n - i)));
    for (int64_t k = 0; i + k < n; ++k) out[i + k] = last[k];
  }

  static void to_bf16(const float* x, int64_t n, uint16_t* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = quant::float_to_bf16(x[i]);
  }

  static uint16_t to_q8_0(const float* x, int64_t n, int8_t* values) {
    constexpr float kLargest = 65504.0f;
    constexpr uint16_t kNan = 0x7e00;
    alignas(64) float in[32] = {};
    for (int64_t i = 0; i < n; ++i) in[i] = x[i];
    // Magnitudes compare as integers: infinity is larger than finite numbers, and NaN larger than both.
    I most = {};
    for (int64_t i = 0; i < 32; i += kLanes) {
      const I bits = (I)V::load(in + i) & 0x7fffffff;
      most = bits > most ? bits : most;
    }
    int32_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) bits = most[lane] > bits ? most[lane] : bits;
    const float scale = __builtin_bit_cast(float, bits) / 127.0f;
    const uint16_t half = bits > 0x7f800000 ? kNan : quant::float_to_half(scale > kLargest ? kLargest : scale);
    const float rounded = quant::half_to_float(half);
    const float inverse = rounded > 0 ? 1.0f / rounded : 0.0f;
    for (int64_t i = 0; i < 32; i += kLanes) {
      F value = V::load(in + i) * inverse;
      value = value > 127.0f ? V::set(127.0f) : value;
      value = value < -127.0f ? V::set(-127.0f) : value;
      // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
      const I whole = (I)(value + 12582912.0f);
      for (int64_t lane = 0; lane < kLanes && i + lane < n; ++lane) {
        values[i + lane] = static_cast<int8_t>(whole[lane] & 255);
      }
    }
    return half;
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
