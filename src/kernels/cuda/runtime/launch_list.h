/// Kernels with their arguments, in the order in which they are to run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

namespace cairn::kernels::cuda {

/// A kernel's argument: a trivially copyable value.
struct KernelArgument {
  const void* value = nullptr;
  size_t bytes = 0;
};

/// The configuration and arguments of a launch.
struct Launch {
  const void* kernel = nullptr;  ///< as for cudaLaunchKernel
  dim3 grid;
  unsigned threads = 0;
  size_t shared_bytes = 0;
  std::span<const KernelArgument> arguments;
  /// Whether the kernel may begin before the one before it has ended, because it calls wait_for_dependencies()
  /// (launch.cuh).
  bool dependent = false;
};

class LaunchList {
 public:
  void clear();
  size_t size() const { return entries_.size(); }
  /// Arguments are copied.
  void add(const Launch& launch);
  /// Launch i in CUDA's form, valid until the list is changed or at() is called again.
  cudaKernelNodeParams at(size_t i);
  bool dependent(size_t i) const { return entries_[i].dependent; }
  /// Whether launch i has the same grid and arguments in both lists, which have the same kernels.
  bool same(size_t i, const LaunchList& other) const;
  /// How many kernels have different grids or arguments, if both lists have the same kernels and there are at most
  /// `differences_max`; otherwise more than that.
  size_t differences(const LaunchList& other, size_t differences_max) const;

 private:
  struct Entry {
    const void* kernel = nullptr;
    dim3 grid;
    unsigned threads = 0;
    size_t shared_bytes = 0;
    size_t offsets_begin = 0;  // index of its arguments' offsets
    size_t offsets_end = 0;
    size_t bytes_begin = 0;
    size_t bytes_end = 0;
    bool dependent = false;
  };
  static constexpr size_t kAlignment = 16;

  bool same_kernels(const LaunchList& other) const;

  std::vector<Entry> entries_;
  std::vector<size_t> offsets_;  // offsets of arguments in bytes_
  std::vector<std::byte> bytes_;
  std::vector<void*> pointers_;  // memory of the result of at()
};

}  // namespace cairn::kernels::cuda
