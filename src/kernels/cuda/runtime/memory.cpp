#include "kernels/cuda/runtime/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/system/machine.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Clears the error that a call has returned, so that a later check for launch errors does not find it.
std::unexpected<Error> no_memory(const Stream& stream, const char* which, int64_t bytes, cudaError_t error,
                                 int64_t free) {
  cudaGetLastError();
  if (error != cudaErrorMemoryAllocation)
    return fail(Code::kInternal, "{} gave no {} memory: {}", stream.name(), which, error_text(error));
  return fail(Code::kOutOfMemory, "cannot allocate {} MiB of {} memory of {}: {} MiB are free", bytes / kMiB, which,
              stream.name(), free / kMiB);
}

}  // namespace

Result<Buffer> allocate(Stream& stream, int64_t bytes) {
  CAIRN_CHECK(bytes >= 0);
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = nullptr;
  const cudaStream_t queue = stream.get();
  if (const cudaError_t error = cudaMalloc(&data, size); error != cudaSuccess)
    return no_memory(stream, "device", bytes, error, free_bytes(stream));
  Buffer buffer(data, size, [](void* at, size_t) { cudaFree(at); });
  if (const cudaError_t error = cudaMemsetAsync(data, 0, size, queue); error != cudaSuccess)
    return fail(Code::kInternal, "{} cannot clear memory: {}", stream.name(), error_text(error));
  return buffer;
}

Result<Buffer> allocate_pinned(Stream& stream, int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = nullptr;
  stream.get();
  if (const cudaError_t error = cudaMallocHost(&data, size); error != cudaSuccess) {
    cudaGetLastError();
    return fail(Code::kOutOfMemory, "cannot allocate {} MiB of host memory for {}: {}", bytes / kMiB, stream.name(),
                error_text(error));
  }
  std::memset(data, 0, size);
  return Buffer(data, size, [](void* at, size_t) { cudaFreeHost(at); });
}

Result<void> grow(Stream& stream, int64_t bytes, Buffer& buffer) {
  if (bytes == 0 || static_cast<int64_t>(buffer.bytes()) >= bytes) return {};
  buffer = Buffer();
  CAIRN_TRY(buffer, allocate(stream, bytes));
  return {};
}

int64_t free_bytes(Stream& stream) {
  size_t free = 0, total = 0;
  stream.get();
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return static_cast<int64_t>(free);
  cudaGetLastError();
  return 0;
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

void Event::record(Stream& stream) {
  const cudaStream_t queue = stream.get();
  if (event_ == nullptr) stream.check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "an event");
  if (event_ == nullptr) return;
  stream.check(cudaEventRecord(event_, queue), "an event");
  recorded_ = true;
}

void Event::wait(Stream& stream) {
  if (recorded_) stream.check(cudaEventSynchronize(event_), "a copy to the device");
  recorded_ = false;
}

Result<void> Uploader::upload(Stream& stream, const void* from, int64_t bytes, void* to) {
  if (threads_ == nullptr) threads_ = std::make_unique<ThreadPool>(std::min(usable_cores(), kThreadsMax));
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    Half& half = halves_[next_];
    next_ = 1 - next_;
    if (half.memory.data() == nullptr) {
      CAIRN_TRY(half.memory, allocate_pinned(stream, kPieceBytes));
    }
    half.sent.wait(stream);
    const auto piece = static_cast<size_t>(std::min(kPieceBytes, bytes - at));
    const std::byte* source = static_cast<const std::byte*>(from) + at;
    auto* const pinned = static_cast<std::byte*>(half.memory.data());
    threads_->parallel_for(static_cast<int64_t>(piece), kCopyBytes, [&](int64_t begin, int64_t end, int) {
      std::memcpy(pinned + begin, source + begin, static_cast<size_t>(end - begin));
    });
    const cudaError_t error = cudaMemcpyAsync(static_cast<std::byte*>(to) + at, half.memory.data(), piece,
                                              cudaMemcpyHostToDevice, stream.get());
    if (error != cudaSuccess)
      return fail(Code::kInternal, "{} did not take {} bytes: {}", stream.name(), piece, error_text(error));
    half.sent.record(stream);
  }
  return {};
}

void Uploader::release() {
  for (Half& half : halves_) half.memory = Buffer();
  threads_.reset();
}

int64_t StagingRing::segment_bytes(int64_t argument_bytes) {
  return std::max(kSegmentBytesMin, (argument_bytes + kAlignment - 1) / kAlignment * kAlignment);
}

int64_t StagingRing::bytes(int64_t argument_bytes) { return 2 * kSegments * segment_bytes(argument_bytes); }

Result<void> StagingRing::reserve(Stream& stream, int64_t argument_bytes) {
  const int64_t wanted = segment_bytes(argument_bytes);
  if (wanted <= segment_bytes_) return {};
  segment_bytes_ = segment_ = used_ = 0;
  pinned_ = Buffer();
  device_ = Buffer();
  CAIRN_TRY(pinned_, allocate_pinned(stream, kSegments * wanted));
  CAIRN_TRY(device_, allocate(stream, kSegments * wanted));
  segment_bytes_ = wanted;
  return {};
}

int64_t StagingRing::stage(Stream& stream, const void* from, int64_t bytes) {
  CAIRN_CHECK(bytes <= segment_bytes_);
  if (used_ + bytes > segment_bytes_) {
    sent_[segment_].record(stream);
    segment_ = (segment_ + 1) % kSegments;
    used_ = 0;
    sent_[segment_].wait(stream);
  }
  const int64_t at = segment_ * segment_bytes_ + used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::memcpy(static_cast<std::byte*>(pinned_.data()) + at, from, static_cast<size_t>(bytes));
  return at;
}

// Earlier contents of that place on the device are overwritten in the stream's order, after the work that reads them:
// queued launches read what was put since the last restart or change of segments, which is elsewhere.
const void* StagingRing::put(Stream& stream, const void* from, int64_t bytes) {
  const int64_t at = stage(stream, from, bytes);
  std::byte* to = static_cast<std::byte*>(device_.data()) + at;
  stream.copy_argument(static_cast<const std::byte*>(pinned_.data()) + at, bytes, to);
  return to;
}

void StagingRing::send(Stream& stream, const void* from, int64_t bytes, void* to) {
  const int64_t at = stage(stream, from, bytes);
  stream.check(cudaMemcpyAsync(to, static_cast<std::byte*>(pinned_.data()) + at, static_cast<size_t>(bytes),
                               cudaMemcpyHostToDevice, stream.ahead()),
               "a copy of arguments");
}

}  // namespace cairn::kernels::cuda
