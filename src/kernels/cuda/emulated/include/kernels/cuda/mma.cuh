/// In place of kernels/cuda/mma.cuh: the tensor cores' product, element by element as PTX says it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace cairn::cuda {

inline void multiply_int8(const uint32_t (&a)[4], const uint32_t (&b)[2], int32_t (&c)[4],
                          const EmulatedPlace& place = EmulatedPlace::current()) {
  struct Words {
    uint32_t a[4];
    uint32_t b[2];
  };
  const EmulatedLanes<Words> lanes(0xffffffffu, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, place);
  const int lane = lanes.own();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    // Four k at a time: those of k and those of k + 16 are in the same lane.
    for (int four = 0; four < 4; ++four) {
      const Words of_row = lanes.of(row % 8 * 4 + four), of_column = lanes.of(column * 4 + four);
      for (int half = 0; half < 2; ++half) {
        const uint32_t left = of_row.a[row / 8 + 2 * half], right = of_column.b[half];
        c[i] = __dp4a(static_cast<int>(left), static_cast<int>(right), c[i]);
      }
    }
  }
}

}  // namespace cairn::cuda
