/// Memory of the CPU backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "kernels/backend.h"

namespace cairn::cpu {

/// Zeroed and aligned to 64 bytes; in huge pages where it is large and the system allows. Errors: kOutOfMemory.
Result<Buffer> allocate(int64_t bytes);

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
