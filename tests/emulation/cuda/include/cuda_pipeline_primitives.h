/// CUDA's asynchronous copies from global to shared memory.
#pragma once

#include "emulation/cuda/block.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
inline void __pipeline_memcpy_async(
    void* to, const void* from, size_t bytes,
    cairn::kernels::cuda::emulated::Place place = cairn::kernels::cuda::emulated::Place::current()) {
  cairn::kernels::cuda::emulated::copy_later(to, from, bytes, place);
}
inline void __pipeline_commit() { cairn::kernels::cuda::emulated::end_group(); }
inline void __pipeline_wait_prior(size_t left) { cairn::kernels::cuda::emulated::wait_for_groups(left); }
// NOLINTEND(readability-identifier-naming)
