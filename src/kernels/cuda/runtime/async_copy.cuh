/// Asynchronous copies from global to shared memory.
///
/// Copies between two calls of end_copies() are a group; a thread waits for its own, a barrier after that for all.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cuda {

/// Copies `bytes` bytes, a multiple of 16, with both addresses aligned to 16; called by the block's kThreads threads
/// together.
template <int kThreads>
__device__ void copy_async(const std::byte* from, int64_t bytes, std::byte* to) {
  for (int64_t i = 16 * threadIdx.x; i < bytes; i += 16 * kThreads) __pipeline_memcpy_async(to + i, from + i, 16);
}

__device__ inline void end_copies() { __pipeline_commit(); }

/// Waits until only the newest kLeft groups may be in flight.
template <int kLeft>
__device__ void wait_for_copies() {
  __pipeline_wait_prior(kLeft);
}

}  // namespace cairn::kernels::cuda
