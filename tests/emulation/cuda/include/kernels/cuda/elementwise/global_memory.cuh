/// Replaces kernels/cuda/elementwise/global_memory.cuh, whose instructions are PTX.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace cairn::kernels::cuda {

template <class T>
void store_whole(const T& value, void* to, EmulatedPlace place = EmulatedPlace::current()) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T) != 0) {
    emulated::broken("a store to an address that is not aligned", place);
  }
  *static_cast<T*>(to) = value;
}

inline int32_t take_ticket(int32_t* number, int32_t added) { return atomicAdd(number, added); }

}  // namespace cairn::kernels::cuda
