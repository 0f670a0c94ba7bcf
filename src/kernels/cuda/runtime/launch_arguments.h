/// Makes a Launch from a kernel's arguments.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::kernels::cuda {

/// Adds a launch of a kernel whose parameters have exactly these types.
template <class... Parameters>
void add_launch(LaunchQueue& launches, bool dependent, const void* kernel, dim3 grid, int threads, size_t shared_bytes,
                const Parameters&... values) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  const std::array<KernelArgument, sizeof...(Parameters)> arguments{KernelArgument{&values, sizeof(values)}...};
  launches.add({kernel, grid, static_cast<unsigned>(threads), shared_bytes, arguments, dependent});
}

}  // namespace cairn::kernels::cuda
