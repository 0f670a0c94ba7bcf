// Memory of the emulated device: the host's, each allocation by itself, so that AddressSanitizer sees what a kernel
// does beyond one's end. While the device does nothing, the begin of each is poisoned: the host has no business there.
#include "kernels/cuda/emulated/device_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/cuda/emulated/block.h"
#include "kernels/cuda/emulated/queue.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#endif

namespace cairn::cuda::emulated {
namespace {

constexpr size_t kBytesInAll = size_t{4} << 30;
constexpr size_t kAlignment = 256;
// Of an allocation: whoever reads it begins at its begin, and large ones would take long.
constexpr size_t kPoisonedBytes = size_t{16} << 10;

struct Memory {
  std::map<const std::byte*, size_t> pieces;  // begin, bytes
  size_t used = 0;
  int users = 0;
};
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

void poison(const std::byte* begin, size_t bytes) { ASAN_POISON_MEMORY_REGION(begin, std::min(bytes, kPoisonedBytes)); }
void unpoison(const std::byte* begin, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(begin, std::min(bytes, kPoisonedBytes));
}

bool on_device(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  const auto next = memory().pieces.upper_bound(at);
  if (next == memory().pieces.begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return at < begin + bytes;
}

}  // namespace

MemoryInUse::MemoryInUse() {
  if (memory().users++ > 0) return;
  for (const auto& [begin, bytes] : memory().pieces) unpoison(begin, bytes);
}

MemoryInUse::~MemoryInUse() {
  if (--memory().users > 0) return;
  for (const auto& [begin, bytes] : memory().pieces) poison(begin, bytes);
}

}  // namespace cairn::cuda::emulated

using namespace cairn::cuda::emulated;

// NOLINTBEGIN(readability-identifier-naming,cppcoreguidelines-no-malloc): CUDA's names, and what they do
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (bytes > kBytesInAll - memory().used) return keep(cudaErrorMemoryAllocation);
  if (posix_memalign(data, kAlignment, bytes) != 0) return keep(cudaErrorMemoryAllocation);
  std::memset(*data, 0xff, bytes);
  const auto* begin = static_cast<const std::byte*>(*data);
  memory().pieces[begin] = bytes;
  memory().used += bytes;
  poison(begin, bytes);
  return cudaSuccess;
}

// It waits for the device, as the real one does.
cudaError_t cudaFree(void* data) {
  const auto piece = memory().pieces.find(static_cast<const std::byte*>(data));
  if (piece == memory().pieces.end()) broken("cudaFree of what is no memory of the device", Place::current());
  finish_all();
  unpoison(piece->first, piece->second);
  memory().used -= piece->second;
  memory().pieces.erase(piece);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return posix_memalign(data, kAlignment, bytes) == 0 ? cudaSuccess : keep(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* data) {
  finish_all();
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = kBytesInAll - memory().used;
  *total = kBytesInAll;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (!on_device(data)) broken("cudaMemsetAsync of what is no memory of the device", Place::current());
  enqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (on_device(to) != (kind != cudaMemcpyDeviceToHost) || on_device(from) != (kind != cudaMemcpyHostToDevice)) {
    broken("cudaMemcpyAsync whose memory is not on the sides that its kind says", Place::current());
  }
  enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
// NOLINTEND(readability-identifier-naming,cppcoreguidelines-no-malloc)
