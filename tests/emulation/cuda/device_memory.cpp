// Memory of the emulated devices: host memory, with a separate allocation for each call, so that AddressSanitizer
// notices accesses beyond its end. While a device is idle, the beginning of each allocation is poisoned, as the host
// may not access it.
#include "emulation/cuda/device_memory.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "emulation/cuda/block.h"
#include "emulation/cuda/queue.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#endif

namespace cairn::kernels::cuda::emulated {
namespace {

constexpr size_t kBytesInAll = size_t{4} << 30;  // of each device
constexpr int kNoDevice = -1;
constexpr size_t kAlignment = 256;
// Poisoned bytes of an allocation: invalid accesses usually start at its beginning, and poisoning large ones would be
// slow.
constexpr size_t kPoisonedBytes = size_t{16} << 10;

struct Memory {
  std::map<const std::byte*, size_t> pieces;  // begin, bytes
  size_t used = 0;
  int users = 0;
};
Memory& memory_of(int device) {
  static auto* all = new std::array<Memory, kDevices>;
  return (*all)[static_cast<size_t>(device)];
}

void poison(const std::byte* begin, size_t bytes) { ASAN_POISON_MEMORY_REGION(begin, std::min(bytes, kPoisonedBytes)); }
void unpoison(const std::byte* begin, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(begin, std::min(bytes, kPoisonedBytes));
}

// The device that owns the address, or kNoDevice.
int device_of(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  for (int device = 0; device < kDevices; ++device) {
    const auto& pieces = memory_of(device).pieces;
    const auto next = pieces.upper_bound(at);
    if (next != pieces.begin() && at < std::prev(next)->first + std::prev(next)->second) return device;
  }
  return kNoDevice;
}

}  // namespace

MemoryInUse::MemoryInUse(int device) : device_(device) {
  if (memory_of(device_).users++ > 0) return;
  for (const auto& [begin, bytes] : memory_of(device_).pieces) unpoison(begin, bytes);
}

MemoryInUse::~MemoryInUse() {
  if (--memory_of(device_).users > 0) return;
  for (const auto& [begin, bytes] : memory_of(device_).pieces) poison(begin, bytes);
}

}  // namespace cairn::kernels::cuda::emulated

using namespace cairn::kernels::cuda::emulated;

// NOLINTBEGIN(readability-identifier-naming,cppcoreguidelines-no-malloc): CUDA's names, and what they do
cudaError_t cudaMalloc(void** data, size_t bytes) {
  Memory& memory = memory_of(current_device());
  if (bytes > kBytesInAll - memory.used) return keep(cudaErrorMemoryAllocation);
  if (posix_memalign(data, kAlignment, bytes) != 0) return keep(cudaErrorMemoryAllocation);
  std::memset(*data, 0xff, bytes);
  const auto* begin = static_cast<const std::byte*>(*data);
  memory.pieces[begin] = bytes;
  memory.used += bytes;
  poison(begin, bytes);
  return cudaSuccess;
}

// Waits for the device, as a real cudaFree does.
cudaError_t cudaFree(void* data) {
  const int device = device_of(data);
  if (device == kNoDevice) broken("cudaFree of what is no memory of the device", Place::current());
  Memory& memory = memory_of(device);
  const auto piece = memory.pieces.find(static_cast<const std::byte*>(data));
  if (piece == memory.pieces.end()) broken("cudaFree of the middle of a piece of memory", Place::current());
  finish_all();
  unpoison(piece->first, piece->second);
  memory.used -= piece->second;
  memory.pieces.erase(piece);
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
  *free = kBytesInAll - memory_of(current_device()).used;
  *total = kBytesInAll;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (device_of(data) != current_device())
    broken("cudaMemsetAsync of what is no memory of the current device", Place::current());
  enqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const int to_wanted = kind == cudaMemcpyDeviceToHost ? kNoDevice : current_device();
  const int from_wanted = kind == cudaMemcpyHostToDevice ? kNoDevice : current_device();
  if (device_of(to) != to_wanted || device_of(from) != from_wanted) {
    broken("cudaMemcpyAsync whose memory is not on the sides that its kind says", Place::current());
  }
  enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
// NOLINTEND(readability-identifier-naming,cppcoreguidelines-no-malloc)
