#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/check.h"

namespace cairn::kernels::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};
// From this size on, a buffer is a mapping of its own, which returns to the system when freed and may have huge pages.
// Smaller ones are on the heap, where sanitizers see an access beyond the end.
constexpr int64_t kMapBytesMin = int64_t{1} << 20;
// Size of a huge page, and the largest size of an ordinary one.
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kPageMax = int64_t{64} << 10;

// Size of a slab, for buffers up to kSlabBytesMax, which begin after a line with the count of owners.
constexpr int64_t kSlabBytes = int64_t{32} << 20;
constexpr int64_t kSlabBytesMax = kSlabBytes / 4;
constexpr int64_t kLine = 64;
using Owners = std::atomic<int64_t>;

size_t in_pages(size_t size) { return (size + kPageMax - 1) / kPageMax * kPageMax; }

// mmap of in_pages(size) bytes at a multiple of `alignment`, which is itself a multiple of kPageMax; or MAP_FAILED.
void* map_aligned(size_t size, size_t alignment) {
  const size_t mapped_bytes = in_pages(size) + alignment;
  void* mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return mapped;
  auto* begin = static_cast<std::byte*>(mapped);
  const size_t before = (alignment - reinterpret_cast<uintptr_t>(begin) % alignment) % alignment;
  const size_t used = mapped_bytes - alignment;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + used, alignment - before);
#ifdef MADV_HUGEPAGE
  // A hint only: without huge pages everything works, a little slower.
  ::madvise(begin + before, used, MADV_HUGEPAGE);
#endif
  return begin + before;
}

void leave(std::byte* slab) {
  if (reinterpret_cast<Owners*>(slab)->fetch_sub(1) == 1) ::munmap(slab, kSlabBytes);
}

}  // namespace

Result<Buffer> allocate(int64_t bytes) {
  CAIRN_CHECK(bytes >= 0);
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (bytes < kMapBytesMin) {
    void* data = ::operator new(size, kAlignment, std::nothrow);
    if (data == nullptr) return fail(Code::kOutOfMemory, "cannot allocate {} bytes", bytes);
    std::memset(data, 0, size);
    return Buffer(data, size, [](void* at, size_t) { ::operator delete(at, kAlignment); });
  }
  // Aligned to a huge page, since a matrix of 2.4 MB may otherwise have none.
  void* data = map_aligned(size, bytes < kHugePage ? kPageMax : kHugePage);
  if (data == MAP_FAILED)
    return fail(Code::kOutOfMemory, "cannot allocate {} MiB: {}", bytes >> 20, std::strerror(errno));
  return Buffer(data, size, [](void* at, size_t length) { ::munmap(at, in_pages(length)); });
}

Slabs::~Slabs() {
  if (slab_ != nullptr) leave(slab_);
}

Result<Buffer> Slabs::allocate(int64_t bytes) {
  if (bytes < kMapBytesMin || bytes > kSlabBytesMax) return cpu::allocate(bytes);
  const int64_t size = (bytes + kLine - 1) / kLine * kLine;
  if (slab_ == nullptr || used_ + size > kSlabBytes) {
    void* mapped = map_aligned(kSlabBytes, kSlabBytes);
    if (mapped == MAP_FAILED) return cpu::allocate(bytes);  // a smaller buffer may still be possible
    if (slab_ != nullptr) leave(slab_);
    slab_ = static_cast<std::byte*>(mapped);
    new (slab_) Owners(1);
    used_ = kLine;
  }
  std::byte* data = slab_ + used_;
  used_ += size;
  reinterpret_cast<Owners*>(slab_)->fetch_add(1);
  return Buffer(data, static_cast<size_t>(bytes), [](void* at, size_t) {
    const uintptr_t within = reinterpret_cast<uintptr_t>(at) % kSlabBytes;
    leave(static_cast<std::byte*>(at) - within);
  });
}

Result<void> Scratch::reserve(int64_t bytes) {
  if (static_cast<int64_t>(buffer_.bytes()) >= bytes) return {};
  CAIRN_TRY(buffer_, allocate(bytes));
  return {};
}

void* Scratch::get(int64_t bytes) {
  CAIRN_CHECK(reserve(bytes).has_value());
  return buffer_.data();
}

}  // namespace cairn::kernels::cpu
