/// A CUDA stream and its errors.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::kernels::cuda {

/// "out of memory (cudaErrorMemoryAllocation)"
std::string error_text(cudaError_t error);

/// One device's stream: work on it runs in the order of the calls. Operations of a Backend do not return errors; the
/// first one is kept here until finish() is called. Not thread-safe.
class Stream {
 public:
  /// `name` is the device's, for messages. Errors: kInternal, kOutOfMemory.
  static Result<std::unique_ptr<Stream>> create(int device, std::string name);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The stream for a call of the CUDA runtime by this thread, which works on the device from then on. Waiting launches
  /// are enqueued first.
  cudaStream_t get();
  /// The stream for a call that does not access memory of waiting launches, which keep waiting.
  cudaStream_t ahead();
  /// Copies an argument of waiting launches from pinned host memory, which must not change before it is used. If there
  /// are waiting launches the copy waits too, to become one with those of addresses just before.
  void copy_argument(const std::byte* from, int64_t bytes, std::byte* to);
  /// The queue for launching kernels.
  LaunchQueue& launches();
  const std::string& name() const { return name_; }

  /// Keeps and logs the first error; `operation` names what failed.
  void check(cudaError_t error, std::string_view operation);
  /// Called after an operation launched its kernels: checks for errors, unless the kernels wait to be launched.
  void launched(std::string_view operation) {
    if (launches_->has_first_part()) {
      send_argument();
      launches_->enqueue_first_part();
    } else if (launches_->gathers()) {
      return;
    }
    check(cudaGetLastError(), operation);
  }
  /// Waits for all work on the stream; `operation` names what may fail.
  void wait(std::string_view operation);
  /// Implements Backend::finish.
  Result<void> finish();

 private:
  Stream(int device, std::string name) : device_(device), name_(std::move(name)) {}
  void make_current() const;
  /// Enqueues the argument that waits, if there is one.
  void send_argument();

  const int device_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<LaunchQueue> launches_;
  struct Argument {
    const std::byte* from = nullptr;
    int64_t bytes = 0;
    std::byte* to = nullptr;
  };
  Argument argument_;  // bytes 0: none waits
  std::optional<Error> first_error_;
  std::chrono::nanoseconds waited_{0};  // for the device, in all calls of wait()
  int64_t waits_ = 0;
};

}  // namespace cairn::kernels::cuda
