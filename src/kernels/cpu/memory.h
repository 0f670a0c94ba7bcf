/// Memory of the CPU backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "kernels/backend.h"

namespace cairn::cpu {

/// Zeroed and aligned to 64 bytes; in huge pages where it is large and the system allows. Errors: kOutOfMemory.
Result<Buffer> allocate(int64_t bytes);

/// Buffers that lie one after the other in a few large mappings, so that those of one or two MiB have huge pages too:
/// for what ends together, since a mapping returns to the system with its last buffer. Buffers may outlive this and end
/// on any thread.
class Slabs {
 public:
  Slabs() = default;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;
  ~Slabs();

  /// As the function.
  Result<Buffer> allocate(int64_t bytes);

 private:
  std::byte* slab_ = nullptr;  // the last one, of which this is an owner
  int64_t used_ = 0;           // bytes of it
};

/// A buffer that grows: for what an operation needs beside its operands. Reserved before serving; an operation that
/// needs more than was foreseen gets it, and dies for want of memory as `new` would.
class Scratch {
 public:
  /// Errors: kOutOfMemory; what was there stays.
  Result<void> reserve(int64_t bytes);
  /// At least `bytes`; what it held before is lost when it grows.
  void* get(int64_t bytes);
  template <class T>
  T* get_array(int64_t n) {
    return static_cast<T*>(get(n * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Buffer buffer_;
};

}  // namespace cairn::cpu
