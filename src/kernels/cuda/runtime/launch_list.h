/// Kernels with their arguments, in the order in which they are to run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

namespace cairn::cuda {

/// A kernel's argument: a value that may be copied byte by byte.
struct KernelArgument {
  const void* value = nullptr;
  size_t bytes = 0;
};

/// What a kernel is started with.
struct Launch {
  const void* kernel = nullptr;  ///< as cudaLaunchKernel wants it
  dim3 grid;
  unsigned threads = 0;
  size_t shared_bytes = 0;
  std::span<const KernelArgument> arguments;
};

class LaunchList {
 public:
  void clear();
  size_t size() const { return entries_.size(); }
  /// Arguments are copied.
  void add(const Launch& launch);
  /// The i-th, as CUDA wants it: good until the list is changed or asked for another one.
  cudaKernelNodeParams at(size_t i);
  /// Whether the i-th of both have the same grid and arguments. Lists of the same kernels.
  bool same(size_t i, const LaunchList& other) const;
  /// Whether both are lists of the same kernels, of which at most so many have not.
  bool alike(const LaunchList& other, size_t differences_max) const;

 private:
  struct Entry {
    const void* kernel = nullptr;
    dim3 grid;
    unsigned threads = 0;
    size_t shared_bytes = 0;
    size_t offsets_begin = 0;  // of its arguments
    size_t offsets_end = 0;
    size_t bytes_begin = 0;
    size_t bytes_end = 0;
  };
  static constexpr size_t kAlignment = 16;

  bool same_kernels(const LaunchList& other) const;

  std::vector<Entry> entries_;
  std::vector<size_t> offsets_;  // of arguments in bytes_
  std::vector<std::byte> bytes_;
  std::vector<void*> pointers_;  // of at()
};

}  // namespace cairn::cuda
