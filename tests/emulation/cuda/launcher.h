/// Launches kernels on an emulated device.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulation/cuda/block.h"
#include "emulation/cuda/include/cuda_runtime_api.h"

namespace cairn::kernels::cuda::emulated {

/// Allows launches of a kernel to have more shared memory than the default.
cudaError_t allow_shared(const void* kernel, int bytes);
/// Enqueues the kernel, of which `work` is one thread. Errors of the launch are also returned by cudaGetLastError.
cudaError_t launch(const void* kernel, const Grid& grid, cudaStream_t stream, std::function<void()> work);

/// Makes a function that runs one thread of a kernel, with copies of these arguments.
using Bind = std::function<void()> (*)(const void* kernel, void** arguments);
/// Registers the types of a kernel's arguments for cudaLaunchKernelExC and graphs.
void know(const void* kernel, Bind bind);
/// The function of a registered kernel, with these arguments.
std::function<void()> bound(const void* kernel, void** arguments);

template <class... Parameters, size_t... kIndices>
std::function<void()> bind(const void* kernel, void** arguments, std::index_sequence<kIndices...>) {
  const auto typed = reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel));
  const std::tuple<std::remove_cvref_t<Parameters>...> copies{
      *static_cast<std::remove_cvref_t<Parameters>*>(arguments[kIndices])...};
  return [typed, copies] { std::apply(typed, copies); };
}
template <class... Parameters>
void know(void (*kernel)(Parameters...)) {
  know(reinterpret_cast<const void*>(kernel), [](const void* same, [[maybe_unused]] void** arguments) {
    return bind<Parameters...>(same, arguments, std::index_sequence_for<Parameters...>{});
  });
}

}  // namespace cairn::kernels::cuda::emulated
