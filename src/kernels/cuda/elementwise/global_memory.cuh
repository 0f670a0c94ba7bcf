/// Accesses to global memory that are one instruction each.
#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

/// Stores at an address that is aligned to the whole. The compiler divides some assignments of these types.
__device__ __forceinline__ void store_whole(const float4& value, void* to) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w)
               : "memory");
}
__device__ __forceinline__ void store_whole(const uint2& value, void* to) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(value.x), "r"(value.y) : "memory");
}

/// Adds to a number, whose value before it returns. What the block's threads stored before the last barrier, blocks
/// that call this later can read after their next barrier.
__device__ __forceinline__ int32_t take_ticket(int32_t* number, int32_t added) {
  int32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;" : "=r"(before) : "l"(number), "r"(added) : "memory");
  return before;
}

}  // namespace cairn::kernels::cuda
