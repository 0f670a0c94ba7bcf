#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"

namespace cairn::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};
// From here on a mapping of its own, which returns to the system when freed and may have huge pages. Below, the heap,
// where sanitizers see an access beyond the end.
constexpr int64_t kMapBytesMin = int64_t{1} << 20;

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
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return fail(Code::kOutOfMemory, "cannot allocate {} MiB: {}", bytes >> 20, std::strerror(errno));
#ifdef MADV_HUGEPAGE
  // Only a wish: without huge pages everything works, a little slower.
  ::madvise(data, size, MADV_HUGEPAGE);
#endif
  return Buffer(data, size, [](void* at, size_t length) { ::munmap(at, length); });
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

}  // namespace cairn::cpu
