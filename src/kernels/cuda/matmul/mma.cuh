/// The tensor cores' products of 16-bit floats.
#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

/// c += a b, for a [16, 16] and b [16, 8] of bfloat16 (or float16), c [16, 8] of float32; intermediate rounding is up
/// to the tensor core, but the same for each element. With g = lane / 4 and t = lane % 4, words of two k each: a[0],
/// a[1] are k from 2 t of rows g and g + 8, a[2], a[3] those from 8 + 2 t; b[0], b[1] the same k of column g; c[0],
/// c[1] are columns 2 t and 2 t + 1 of row g, c[2], c[3] of row g + 8.
__device__ __forceinline__ void multiply_bf16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply_f16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Loads four matrices of 8 by 8 16-bit numbers from shared memory: lanes 8 i to 8 i + 7 have the addresses of the rows
/// of matrix i, multiples of 16 bytes. A lane gets the numbers 2 t and 2 t + 1 of row g of each; with kTransposed, rows
/// 2 t and 2 t + 1 of column g. Called by all lanes of a warp.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(const uint16_t* row, uint32_t (&out)[4]) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  }
}

}  // namespace cairn::kernels::cuda
