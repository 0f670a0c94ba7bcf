/// Attention kernels over whole rows (mla_op.h), written once over an ISA's `Vector`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention_decode_body.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct RowDecoder {
  using F = typename V::F;
  using Math = VectorMath<V>;
  static constexpr int32_t kLanes = V::kLanes;
  static constexpr int32_t kBlock = 32;

  template <WideLoad<V> kLoad>
  static void decode_16_bit_row(const std::byte* row, int32_t dim, float* out) {
    const auto* from = reinterpret_cast<const uint16_t*>(row);
    int32_t d = 0;
    for (; d + kLanes <= dim; d += kLanes) V::store(out + d, kLoad(from + d));
    if (d == dim) return;
    uint16_t last[V::kLanes] = {};
    for (int32_t i = 0; d + i < dim; ++i) last[i] = from[d + i];
    V::store_some(out + d, kLoad(last), dim - d);
  }

  static void decode_q8_0_row(const std::byte* row, int32_t dim, float* out) {
    const auto* values = reinterpret_cast<const int8_t*>(row);
    const auto* scales = reinterpret_cast<const uint16_t*>(row + (dim + kBlock - 1) / kBlock * kBlock);
    for (int32_t begin = 0; begin < dim; begin += kBlock) {
      uint16_t halves[V::kLanes] = {scales[begin / kBlock]};
      const F scale = V::set(V::load(halves)[0]);
      const int32_t end = dim - begin < kBlock ? dim : begin + kBlock;
      int32_t d = begin;
      for (; d + kLanes <= end; d += kLanes) V::store(out + d, V::load(values + d) * scale);
      if (d < end) V::store_some(out + d, V::load(values + d) * scale, end - d);
    }
  }

  static float relu_dot(const float* x, const float* weights, int32_t n) {
    F sum = V::set(0);
    for (int32_t i = 0; i < n; i += kLanes) sum = V::fma(Math::relu(V::load(x + i)), V::load(weights + i), sum);
    return static_cast<float>(Math::sum_of_lanes(sum));
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
