/// Memory of a backend. Part of the interface of kernels/backend.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn {

/// Memory of a backend; freed when destroyed. Aligned to 64 bytes, zeroed.
class Buffer {
 public:
  using Free = void (*)(void* data, size_t bytes);
  Buffer() = default;
  Buffer(void* data, size_t bytes, Free free);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }
  /// Bytes of all that there are in the process. Thread: any.
  static int64_t bytes_in_all();

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Free free_ = nullptr;
};

}  // namespace cairn
