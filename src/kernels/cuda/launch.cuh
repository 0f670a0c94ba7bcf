/// Launches of kernels: the one place with the syntax for it, and the sizes that kernels share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;
/// Blocks in the second and third dimension of a grid, at most.
inline constexpr int64_t kGridMax = 65535;

/// Blocks for `count` things, `per_block` to a block; at most `most`, of which each then goes on with what is left.
inline unsigned blocks_of(int64_t count, int64_t per_block, int64_t most) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + per_block - 1) / per_block, 1, most));
}

/// Whether all pointers are at multiples of 16 bytes.
template <class... T>
bool aligned16(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Errors stay with the device, as operations.h says.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  kernel<<<grid, static_cast<unsigned>(threads), shared_bytes, stream>>>(arguments...);
}

/// The shared memory that the launch gave the block.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(16) std::byte cairn_shared_memory[];
  return cairn_shared_memory;
}

}  // namespace cairn::cuda
