/// The tensor cores' product of int8 matrices.
#pragma once

#include <cstdint>

namespace cairn::cuda {

/// c += a b, for a [16, 32] and b [32, 8] of int8, c [16, 8] of int32, exact. With g = lane / 4 and t = lane % 4, words
/// of four k each: a[0], a[1] are k from 4 t of rows g and g + 8, a[2], a[3] those from 16 + 4 t; b[0], b[1] the same k
/// of column g; c[0], c[1] are columns 2 t and 2 t + 1 of row g, c[2], c[3] of row g + 8.
__device__ __forceinline__ void multiply_int8(const uint32_t (&a)[4], const uint32_t (&b)[2], int32_t (&c)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace cairn::cuda
