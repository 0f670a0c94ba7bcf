// The tensor cores' products, element by element as the PTX manual defines them.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/emulated/block.h"
#include "kernels/cuda/matmul/mma.cuh"

namespace cairn::cuda {
namespace {

/// The operands that a lane holds, of two k for each word.
struct Operands {
  float a[4][2];
  float b[2][2];
};

template <class ToFloat>
void multiply(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], ToFloat to_float, EmulatedPlace place) {
  Operands own;
  for (int i = 0; i < 4; ++i) {
    own.a[i][0] = to_float(a[i] & 0xffffu);
    own.a[i][1] = to_float(a[i] >> 16);
  }
  for (int i = 0; i < 2; ++i) {
    own.b[i][0] = to_float(b[i] & 0xffffu);
    own.b[i][1] = to_float(b[i] >> 16);
  }
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
  multiply(a, b, c, [](uint32_t bits) { return std::bit_cast<float>(bits << 16); }, place);
}
void multiply_f16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], EmulatedPlace place) {
  multiply(
      a, b, c, [](uint32_t bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }, place);
}

}  // namespace cairn::cuda
