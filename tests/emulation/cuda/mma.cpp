// The tensor cores' products, element by element as the PTX manual defines them.
#include <cuda_runtime.h>
#include <immintrin.h>

#include <bit>

#include "emulation/cuda/block.h"
#include "kernels/cuda/matmul/mma.cuh"

namespace cairn::kernels::cuda {
namespace {

/// The operands that a lane holds, of two k for each word.
struct Operands {
  float a[4][2];
  float b[2][2];
};

void multiply(const Operands& own, float (&c)[4], EmulatedPlace place) {
  static_assert(sizeof(own) <= emulated::kSlotBytes);
  const emulated::Slots& slots = emulated::exchange(0xffffffffu, &own, sizeof(own), place);
  const auto of = [&](int lane) -> const Operands& { return *reinterpret_cast<const Operands*>(slots[lane]); };
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane / 4, column = lane % 4 * 2;
  // Two k at a time: those of k and of k + 8 are in the same lane.
  for (int two = 0; two < 4; ++two) {
    const Operands& of_row = of(row * 4 + two);
    const Operands* of_columns[2] = {&of(column * 4 + two), &of((column + 1) * 4 + two)};
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        const float* const left = of_row.a[i / 2 + 2 * half];
        const float* const right = of_columns[i % 2]->b[half];
        c[i] += left[0] * right[0];
        c[i] += left[1] * right[1];
      }
    }
  }
}

}  // namespace

void multiply_bf16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], EmulatedPlace place) {
  const auto put = [](uint32_t pair, float(&to)[2]) {
    to[0] = std::bit_cast<float>(pair << 16);
    to[1] = std::bit_cast<float>(pair & 0xffff0000u);
  };
  Operands own;
  for (int i = 0; i < 4; ++i) put(a[i], own.a[i]);
  for (int i = 0; i < 2; ++i) put(b[i], own.b[i]);
  multiply(own, c, place);
}

// Every processor with fused multiply-adds, which the emulated GPU asks for, has these conversions, too.
void multiply_f16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], EmulatedPlace place) {
  Operands own;
  _mm256_storeu_ps(&own.a[0][0], _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))));
  _mm_storeu_ps(&own.b[0][0], _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(b))));
  multiply(own, c, place);
}

}  // namespace cairn::kernels::cuda
