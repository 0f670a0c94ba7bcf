#include "kernels/cuda/runtime/launch_list.h"

#include <algorithm>
#include <cstring>

namespace cairn::kernels::cuda {

void LaunchList::clear() {
  entries_.clear();
  offsets_.clear();
  bytes_.clear();
}

void LaunchList::add(const Launch& launch) {
  Entry entry{launch.kernel, launch.grid, launch.threads,  launch.shared_bytes, offsets_.size(), 0,
              bytes_.size(), 0,           launch.dependent};
  for (const KernelArgument& argument : launch.arguments) {
    const size_t offset = bytes_.size();
    offsets_.push_back(offset);
    bytes_.resize(offset + (argument.bytes + kAlignment - 1) / kAlignment * kAlignment);
    std::memcpy(bytes_.data() + offset, argument.value, argument.bytes);
  }
  entry.offsets_end = offsets_.size();
  entry.bytes_end = bytes_.size();
  entries_.push_back(entry);
}

cudaKernelNodeParams LaunchList::at(size_t i) {
  const Entry& entry = entries_[i];
  pointers_.clear();
  for (size_t k = entry.offsets_begin; k < entry.offsets_end; ++k) pointers_.push_back(bytes_.data() + offsets_[k]);
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(entry.kernel);
  params.gridDim = entry.grid;
  params.blockDim = dim3(entry.threads);
  params.sharedMemBytes = static_cast<unsigned>(entry.shared_bytes);
  params.kernelParams = pointers_.data();
  return params;
}

bool LaunchList::same_kernels(const LaunchList& other) const {
  return std::ranges::equal(entries_, other.entries_, {}, &Entry::kernel, &Entry::kernel);
}

bool LaunchList::same(size_t i, const LaunchList& other) const {
  const Entry &a = entries_[i], &b = other.entries_[i];
  const size_t bytes = a.bytes_end - a.bytes_begin;
  return a.grid.x == b.grid.x && a.grid.y == b.grid.y && a.grid.z == b.grid.z && a.threads == b.threads &&
         a.shared_bytes == b.shared_bytes && bytes == b.bytes_end - b.bytes_begin &&
         std::memcmp(bytes_.data() + a.bytes_begin, other.bytes_.data() + b.bytes_begin, bytes) == 0;
}

size_t LaunchList::differences(const LaunchList& other, size_t differences_max) const {
  if (!same_kernels(other)) return differences_max + 1;
  size_t differences = 0;
  for (size_t i = 0; i < size() && differences <= differences_max; ++i) differences += same(i, other) ? 0 : 1;
  return differences;
}

}  // namespace cairn::kernels::cuda
