/// Memory of the CPU backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "kernels/backend.h"

namespace cairn::kernels::cpu {

/// Allocates a buffer, zeroed and aligned to 64 bytes; in huge pages if it is large and the system allows. Errors:
/// kOutOfMemory.
Result<Buffer> allocate(int64_t bytes);

/// Allocates buffers one after the other in a few large mappings, so that those of one or two MiB have huge pages too.
/// For buffers that end together, since a mapping returns to the system with its last buffer. Buffers may outlive this
/// and may end on any thread.
class Slabs {
 public:
  Slabs() = default;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;
  ~Slabs();

  /// Allocates like the function allocate(), from a slab if the size suits one.
  Result<Buffer> allocate(int64_t bytes);

 private:
  std::byte* slab_ = nullptr;  // the current slab, of which this is an owner
  int64_t used_ = 0;           // bytes used of it
};

/// A growing buffer for what an operation needs besides its operands. It is reserved before serving; an operation that
/// needs more than was foreseen gets it, or throws std::bad_alloc as `new` would.
class Scratch {
 public:
  /// Errors: kOutOfMemory; then the old buffer stays.
  Result<void> reserve(int64_t bytes);
  /// Returns at least `bytes` bytes; the old contents are lost when it grows.
  void* get(int64_t bytes);
  template <class T>
  T* get_array(int64_t n) {
    return static_cast<T*>(get(n * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Buffer buffer_;
};

}  // namespace cairn::kernels::cpu
