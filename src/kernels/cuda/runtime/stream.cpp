#include "kernels/cuda/runtime/stream.h"

#include <utility>

#include "base/log.h"

namespace cairn::kernels::cuda {

std::string error_text(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

Result<std::unique_ptr<Stream>> Stream::create(int device, std::string name) {
  std::unique_ptr<Stream> made(new Stream(device, std::move(name)));
  made->make_current();
  // A non-blocking stream, independent of the default stream, which other libraries of the process may use.
  const cudaError_t error = cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking);
  if (error == cudaSuccess) {
    made->launches_ = std::make_unique<LaunchQueue>(made->stream_);
    return made;
  }
  return fail(error == cudaErrorMemoryAllocation ? Code::kOutOfMemory : Code::kInternal, "{} cannot be used: {}",
              made->name_, error_text(error));
}

Stream::~Stream() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(get());
  log_debug("gpu: the host waited {:.3f} s for {}, in {} waits", std::chrono::duration<double>(waited_).count(), name_,
            waits_);
  launches_.reset();
  cudaStreamDestroy(stream_);
}

void Stream::make_current() const {
  // The runtime's current device belongs to the thread. Engines are made on one thread and work on another.
  static thread_local int current = -1;
  if (current != device_ && cudaSetDevice(device_) == cudaSuccess) current = device_;
}

cudaStream_t Stream::get() {
  make_current();
  send_argument();
  launches_->enqueue();
  return stream_;
}

cudaStream_t Stream::ahead() {
  make_current();
  return stream_;
}

void Stream::copy_argument(const std::byte* from, int64_t bytes, std::byte* to) {
  make_current();
  // Bytes between two arguments are copied along: the memory is the same on both sides.
  const bool follows =
      argument_.bytes > 0 && from - argument_.from == to - argument_.to && from >= argument_.from + argument_.bytes;
  if (follows) {
    argument_.bytes = from + bytes - argument_.from;
  } else {
    send_argument();
    argument_ = {from, bytes, to};
  }
  if (!launches_->gathers()) send_argument();
}

void Stream::send_argument() {
  if (argument_.bytes == 0) return;
  const Argument now = std::exchange(argument_, {});
  check(cudaMemcpyAsync(now.to, now.from, static_cast<size_t>(now.bytes), cudaMemcpyHostToDevice, stream_),
        "a copy of arguments");
}

LaunchQueue& Stream::launches() {
  make_current();
  return *launches_;
}

void Stream::check(cudaError_t error, std::string_view operation) {
  if (error == cudaSuccess || first_error_) return;
  first_error_ = Error{Code::kInternal,
                       fmt::format("{} failed in or before {}: {}; no model answers on it any more: start cairn again, "
                                   "and with --gpu-layers 0 if it happens again",
                                   name_, operation, error_text(error)),
                       {}};
  log_error("gpu: {}", first_error_->message);
}

void Stream::wait(std::string_view operation) {
  const cudaStream_t stream = get();
  const auto begin = std::chrono::steady_clock::now();
  check(cudaStreamSynchronize(stream), operation);
  waited_ += std::chrono::steady_clock::now() - begin;
  ++waits_;
}

Result<void> Stream::finish() {
  get();
  launched("a kernel");
  wait("a kernel");
  if (first_error_) return std::unexpected(*first_error_);
  return {};
}

}  // namespace cairn::kernels::cuda
