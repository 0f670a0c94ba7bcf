/// Memory of a device, the machine's own or a GPU's, and copies from and to it: all that cache/ needs of a backend.
///
/// What a device allocates only the device's operations read and write; others go through read() and write() here.
/// Calls for one device come from one thread at a time and take effect in call order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace cairn::kernels {

/// Memory of a device; freed when destroyed. Aligned to 64 bytes, zeroed.
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

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Errors: kOutOfMemory.
  virtual Result<Buffer> allocate(int64_t bytes) = 0;
  /// Bytes that could be allocated now: of the machine's memory, unless the device has its own.
  virtual int64_t available_bytes() const;

  // -- Copies, which allocate nothing.
  /// Copies `bytes` to host memory, after everything before it has finished.
  virtual void read(const void* from, int64_t bytes, void* to) = 0;
  /// Copies from host into device memory.
  virtual void write(const void* from, int64_t bytes, void* to) = 0;
  /// Copies within device memory; the two do not overlap.
  virtual void copy(const void* from, int64_t bytes, void* to) = 0;
  /// Waits until all operations before have finished. Errors: kInternal, if one of them has ever failed: nothing that
  /// was computed since means anything, now or later.
  virtual Result<void> finish() { return {}; }
};

}  // namespace cairn::kernels
