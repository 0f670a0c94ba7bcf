/// Replaces kernels/cuda/matmul/mma.cuh on the emulated GPU: the tensor cores' products, element by element as the PTX
/// manual defines them.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/check.h"

namespace cairn::cuda {

/// The operands of a product that the lanes of a warp hold.
struct ProductWords {
  uint32_t a[4];
  uint32_t b[2];
};

template <class ToFloat>
void multiply_16_bits(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], ToFloat to_float,
                      const EmulatedPlace& place) {
  const EmulatedLanes<ProductWords> lanes(0xffffffffu, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, place);
  const int lane = lanes.own();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    // Two k at a time: those of k and of k + 8 are in the same lane.
    for (int two = 0; two < 4; ++two) {
      const ProductWords of_row = lanes.of(row % 8 * 4 + two), of_column = lanes.of(column * 4 + two);
      for (int half = 0; half < 2; ++half) {
        const uint32_t left = of_row.a[row / 8 + 2 * half], right = of_column.b[half];
        c[i] += to_float(left & 0xffffu) * to_float(right & 0xffffu);
        c[i] += to_float(left >> 16) * to_float(right >> 16);
      }
    }
  }
}

// Not inlined, as kernels have hundreds of calls.
[[gnu::noinline]] inline void multiply_bf16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4],
                                            const EmulatedPlace& place = EmulatedPlace::current()) {
  multiply_16_bits(a, b, c, [](uint32_t bits) { return std::bit_cast<float>(bits << 16); }, place);
}
[[gnu::noinline]] inline void multiply_f16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4],
                                           const EmulatedPlace& place = EmulatedPlace::current()) {
  multiply_16_bits(
      a, b, c, [](uint32_t bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }, place);
}

template <bool kTransposed>
void load_matrices(const uint16_t* row, uint32_t (&out)[4], const EmulatedPlace& place = EmulatedPlace::current()) {
  CAIRN_CHECK(reinterpret_cast<uintptr_t>(row) % 16 == 0);
  const EmulatedLanes<const uint16_t*> rows(0xffffffffu, row, place);
  const int g = rows.own() / 4, t = rows.own() % 4;
  for (int i = 0; i < 4; ++i) {
    const auto number = [&](int r, int c) { return uint32_t{rows.of(8 * i + r)[c]}; };
    out[i] =
        kTransposed ? number(2 * t, g) | number(2 * t + 1, g) << 16 : number(g, 2 * t) | number(g, 2 * t + 1) << 16;
  }
}

}  // namespace cairn::cuda
