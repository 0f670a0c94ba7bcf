/// Replaces kernels/cuda/matmul/mma.cuh on the emulated GPU: the tensor cores' products (mma.cpp) and the loads of
/// their operands, element by element as the PTX manual defines them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/check.h"

namespace cairn::kernels::cuda {

void multiply_bf16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4],
                   EmulatedPlace place = EmulatedPlace::current());
void multiply_f16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4],
                  EmulatedPlace place = EmulatedPlace::current());

template <bool kTransposed>
void load_matrices(const uint16_t* row, uint32_t (&out)[4], EmulatedPlace place = EmulatedPlace::current()) {
  CAIRN_CHECK(reinterpret_cast<uintptr_t>(row) % 16 == 0);
  const EmulatedLanes<const uint16_t*> rows(0xffffffffu, row, place);
  const int g = rows.own() / 4, t = rows.own() % 4;
  for (int i = 0; i < 4; ++i) {
    const auto number = [&](int r, int c) { return uint32_t{rows.of(8 * i + r)[c]}; };
    out[i] =
        kTransposed ? number(2 * t, g) | number(2 * t + 1, g) << 16 : number(g, 2 * t) | number(g, 2 * t + 1) << 16;
  }
}

}  // namespace cairn::kernels::cuda
