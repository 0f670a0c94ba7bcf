/// The queue of a GPU's work, and what has gone wrong in it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::cuda {

/// "out of memory (cudaErrorMemoryAllocation)"
std::string error_text(cudaError_t error);

/// One device's stream: work on it runs in the order of the calls. Operations of a Backend have no errors of their own;
/// the first one stays here until finish() is asked. Thread: one at a time.
class Stream {
 public:
  /// `name` is the device's, for messages. Errors: kInternal, kOutOfMemory.
  static Result<std::unique_ptr<Stream>> create(int device, std::string name);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// For a call of the CUDA runtime by this thread, which works on the device from then on. LaunchQueue that wait are
  /// enqueued.
  cudaStream_t get();
  /// The same for what nothing that waits reads or writes.
  cudaStream_t ahead();
  /// For kernels.
  LaunchQueue& launches();
  const std::string& name() const { return name_; }

  /// Keeps and logs the first error; `operation` is what failed.
  void check(cudaError_t error, std::string_view operation);
  /// The same after kernels were launched.
  void launched(std::string_view operation) { check(cudaGetLastError(), operation); }
  /// As Backend's.
  Result<void> finish();

 private:
  Stream(int device, std::string name) : device_(device), name_(std::move(name)) {}
  void make_current() const;

  const int device_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<LaunchQueue> launches_;
  std::optional<Error> first_error_;
};

}  // namespace cairn::cuda
