/// The part of CUDA's language that kernels use, for threads of an emulated block. As with nvcc, this is included
/// before a .cu file's first line.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "emulation/cuda/block.h"
#include "emulation/cuda/include/cuda_runtime_api.h"
#include "emulation/cuda/include/vector_types.h"
#include "emulation/cuda/launcher.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
#define __CUDACC__
#define __CUDA_ARCH__ 900
#define __host__
#define __device__
#define __global__
// Blocks run one after the other, so one copy is enough.
#define __shared__ static
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)

extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 gridDim;
extern dim3 blockDim;

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
constexpr int cudaSharedmemCarveoutMaxShared = 100;
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return cairn::kernels::cuda::emulated::allow_shared(reinterpret_cast<const void*>(kernel), value);
}

// -- Operations of several threads.

using EmulatedPlace = cairn::kernels::cuda::emulated::Place;

inline void __syncthreads(EmulatedPlace place = EmulatedPlace::current()) {
  cairn::kernels::cuda::emulated::barrier(place);
}
inline void __syncwarp(uint32_t mask = 0xffffffffu, EmulatedPlace place = EmulatedPlace::current()) {
  cairn::kernels::cuda::emulated::exchange(mask, nullptr, 0, place);
}

/// The values of a warp's lanes.
template <class T>
class EmulatedLanes {
 public:
  EmulatedLanes(uint32_t mask, const T& own, EmulatedPlace place)
      : slots_(cairn::kernels::cuda::emulated::exchange(mask, &own, sizeof(own), place)) {
    static_assert(sizeof(T) <= cairn::kernels::cuda::emulated::kSlotBytes);
  }
  static int own() { return static_cast<int>(threadIdx.x % 32); }
  T of(int lane) const {
    T value;
    __builtin_memcpy(&value, slots_[lane], sizeof(value));
    return value;
  }

 private:
  const cairn::kernels::cuda::emulated::Slots& slots_;
};

template <class T>
T __shfl_sync(uint32_t mask, T value, int lane, int width = 32, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<T> lanes(mask, value, place);
  return lanes.of(lanes.own() / width * width + lane % width);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int bits, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<T> lanes(mask, value, place);
  return lanes.of(lanes.own() ^ bits);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, int lanes_up, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<T> lanes(mask, value, place);
  return lanes.own() >= lanes_up ? lanes.of(lanes.own() - lanes_up) : value;
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, int lanes_down, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<T> lanes(mask, value, place);
  return lanes.own() + lanes_down < 32 ? lanes.of(lanes.own() + lanes_down) : value;
}
inline uint32_t __ballot_sync(uint32_t mask, bool vote, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<bool> lanes(mask, vote, place);
  uint32_t votes = 0;
  for (int i = 0; i < 32; ++i) votes |= static_cast<uint32_t>(lanes.of(i)) << i;
  return votes;
}
inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t value, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<uint32_t> lanes(mask, value, place);
  for (int i = 0; i < 32; ++i) value = value > lanes.of(i) ? value : lanes.of(i);
  return value;
}
inline int __reduce_add_sync(uint32_t mask, int value, EmulatedPlace place = EmulatedPlace::current()) {
  const EmulatedLanes<int> lanes(mask, value, place);
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += lanes.of(i);
  return sum;
}

// -- Operations of a single thread.

template <class T>
T __ldg(const T* at, EmulatedPlace place = EmulatedPlace::current()) {
  if (reinterpret_cast<uintptr_t>(at) % sizeof(T) != 0) {
    cairn::kernels::cuda::emulated::broken("a load from an address that is not aligned", place);
  }
  return *at;
}

/// Threads of a block run one at a time, so no atomic operation is needed.
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at = before + value;
  return before;
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frsqrt_rn(float a) { return static_cast<float>(1 / std::sqrt(double{a})); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline int __float2int_rn(float a) { return static_cast<int>(std::nearbyint(a)); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline uint32_t __float_as_uint(float a) { return std::bit_cast<uint32_t>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline float __uint_as_float(uint32_t a) { return std::bit_cast<float>(a); }

inline int min(int a, int b) { return a < b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline int __popc(uint32_t a) { return std::popcount(a); }
inline int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }
/// The low word of (high, low) >> shift; larger shifts count as 32.
inline uint32_t __funnelshift_rc(uint32_t low, uint32_t high, uint32_t shift) {
  return shift >= 32 ? high : static_cast<uint32_t>(((static_cast<uint64_t>(high) << 32) | low) >> shift);
}
/// Selects bytes, without the sign replication that the fourth bit of a nibble selects, which is not used.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t from = selector >> (4 * i) & 7u;
    result |= ((from < 4 ? low : high) >> (from % 4 * 8) & 255u) << (8 * i);
  }
  return result;
}
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return sum;
}
// NOLINTEND(readability-identifier-naming)
