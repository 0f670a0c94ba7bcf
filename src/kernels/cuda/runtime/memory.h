/// GPU memory, pinned host memory, and copies between them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/system/thread_pool.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/device_memory.h"

namespace cairn::kernels::cuda {

/// Allocates zeroed device memory, aligned to 256 bytes. Errors: kOutOfMemory (with the number of free bytes),
/// kInternal.
Result<Buffer> allocate(Stream& stream, int64_t bytes);
/// Allocates pinned host memory. Errors: kOutOfMemory.
Result<Buffer> allocate_pinned(Stream& stream, int64_t bytes);
/// Makes `buffer` at least `bytes` large; its contents are lost. No work on the stream may use it any more.
Result<void> grow(Stream& stream, int64_t bytes, Buffer& buffer);
/// Free bytes of the device; 0 if it does not tell.
int64_t free_bytes(Stream& stream);

/// Marks a place in a stream that can be waited for.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  /// Marks the end of all work enqueued so far.
  void record(Stream& stream);
  /// Waits until the work before the last record() is done; returns at once if there was none.
  void wait(Stream& stream);

 private:
  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

/// Uploads large arrays to the device: while one piece is being transferred, several threads copy the next one out of
/// the file's mapping, waiting for the disk together.
class Uploader {
 public:
  /// Returns when `from` has been read. Errors: kOutOfMemory, kInternal.
  Result<void> upload(Stream& stream, const void* from, int64_t bytes, void* to);
  /// Frees its memory and threads until the next upload. No transfer may be in progress.
  void release();

 private:
  static constexpr int64_t kPieceBytes = int64_t{16} << 20;
  static constexpr int64_t kCopyBytes = int64_t{1} << 20;  // bytes per thread at a time
  static constexpr int kThreadsMax = 8;
  struct Half {
    Buffer memory;
    Event sent;
  };
  std::array<Half, 2> halves_;
  size_t next_ = 0;
  std::unique_ptr<ThreadPool> threads_;
};

/// Uploads small arguments of operations from host memory, which the caller may change at once. They pass through
/// segments of pinned memory, each reused when the copies from it have completed.
class StagingRing {
 public:
  /// Bytes that the first reserve() takes.
  static int64_t bytes(int64_t argument_bytes);
  /// Reserves memory for arguments of up to `argument_bytes`. No work on the stream may use the old one. Errors:
  /// kOutOfMemory.
  Result<void> reserve(Stream& stream, int64_t argument_bytes);
  /// Starts over: all arguments have been used, and the next step's have the same addresses as this one's.
  void restart() { segment_ = used_ = 0; }
  bool holds(int64_t bytes) const { return bytes <= segment_bytes_; }
  /// Copies an argument to the device; returns its address for the next operation of the stream.
  const void* put(Stream& stream, const void* from, int64_t bytes);
  /// Copies an argument to other memory of the device.
  void send(Stream& stream, const void* from, int64_t bytes, void* to);

 private:
  /// More than one segment, so that filling one need not wait for transferring another.
  static constexpr int64_t kSegments = 4;
  static constexpr int64_t kSegmentBytesMin = int64_t{1} << 18;
  static constexpr int64_t kAlignment = 64;
  static int64_t segment_bytes(int64_t argument_bytes);
  /// Copies to pinned memory; returns the offset there.
  int64_t stage(Stream& stream, const void* from, int64_t bytes);

  Buffer pinned_;  // [kSegments, segment_bytes_]
  Buffer device_;  // same size on the device
  int64_t segment_bytes_ = 0;
  int64_t segment_ = 0;
  int64_t used_ = 0;  // bytes used of the segment
  std::array<Event, kSegments> sent_;
};

}  // namespace cairn::kernels::cuda
