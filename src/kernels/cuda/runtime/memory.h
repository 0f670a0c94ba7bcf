/// Memory of the GPU, memory of the host that it can copy from, and the ways from one to the other.
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

namespace cairn::cuda {

/// Zeroed memory of the device, aligned to 256 bytes. Errors: kOutOfMemory (with what is free), kInternal.
Result<Buffer> allocate(Stream& stream, int64_t bytes);
/// Memory of the host that stays where it is. Errors: kOutOfMemory.
Result<Buffer> allocate_pinned(Stream& stream, int64_t bytes);
/// Makes `buffer` at least so large; what was in it is lost. Nothing on the stream uses it any more.
Result<void> grow(Stream& stream, int64_t bytes, Buffer& buffer);
/// Of the device, that nobody has. 0 if it does not say.
int64_t free_bytes(Stream& stream);

/// Marks a place in a stream that can be waited for.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  /// Of all work before.
  void record(Stream& stream);
  /// Returns when the work before the last record() is done; at once without one.
  void wait(Stream& stream);

 private:
  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

/// The way of large arrays to the device: while one piece is on its way, the next is copied out of the file's mapping
/// by several threads, which then wait for the disk together.
class Uploader {
 public:
  /// Returns when `from` has been read. Errors: kOutOfMemory, kInternal.
  Result<void> upload(Stream& stream, const void* from, int64_t bytes, void* to);
  /// Gives its memory and threads back until the next upload. Nothing is on its way.
  void release();

 private:
  static constexpr int64_t kPieceBytes = int64_t{16} << 20;
  static constexpr int64_t kCopyBytes = int64_t{1} << 20;  // to a thread at a time
  static constexpr int kThreadsMax = 8;
  struct Half {
    Buffer memory;
    Event sent;
  };
  std::array<Half, 2> halves_;
  size_t next_ = 0;
  std::unique_ptr<ThreadPool> threads_;
};

/// The way of small arrays: arguments that operations get in host memory, which the caller may change at once. They
/// pass through segments of pinned memory, each used again when what was copied from it has arrived.
class StagingRing {
 public:
  /// Bytes that the first reserve() takes.
  static int64_t bytes(int64_t argument_bytes);
  /// For arguments of up to so many bytes. Nothing on the stream uses any. Errors: kOutOfMemory.
  Result<void> reserve(Stream& stream, int64_t argument_bytes);
  /// All that was put has been used: the next steps' arguments lie where this one's did.
  void restart() { segment_ = used_ = 0; }
  bool holds(int64_t bytes) const { return bytes <= segment_bytes_; }
  /// Where the argument is on the device, for the next operation of the stream.
  const void* put(Stream& stream, const void* from, int64_t bytes);
  /// Copies it to other memory of the device.
  void send(Stream& stream, const void* from, int64_t bytes, void* to);

 private:
  /// More than one, so that copying in need not wait for copying out.
  static constexpr int64_t kSegments = 4;
  static constexpr int64_t kSegmentBytesMin = int64_t{1} << 18;
  static constexpr int64_t kAlignment = 64;
  static int64_t segment_bytes(int64_t argument_bytes);
  /// Copies to pinned memory; the offset there.
  int64_t stage(Stream& stream, const void* from, int64_t bytes);

  Buffer pinned_;  // [kSegments, segment_bytes_]
  Buffer device_;  // the same
  int64_t segment_bytes_ = 0;
  int64_t segment_ = 0;
  int64_t used_ = 0;  // of the segment
  std::array<Event, kSegments> sent_;
};

}  // namespace cairn::cuda
