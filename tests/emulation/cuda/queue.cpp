#include "emulation/cuda/queue.h"

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulation/cuda/device_memory.h"
#include "emulation/cuda/launcher.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
struct EmulatedStream {
  int device = 0;
  std::deque<std::function<void()>> work;
  int64_t done = 0;
  int64_t enqueued() const { return done + static_cast<int64_t>(work.size()); }
};

struct EmulatedEvent {
  int device = 0;
  cudaStream_t stream = nullptr;
  int64_t after = 0;  // number of the stream's items of work before the event
};

namespace cairn::kernels::cuda::emulated {
namespace {

// The default shared memory of a device of compute capability 9.0.
constexpr int kSharedUnasked = 48 << 10;
constexpr int kSharedMost = 227 << 10;
constexpr int kMultiprocessors = 4;  // few, so that grids of few blocks are large
constexpr int32_t kThreadsMax = 1024;
constexpr unsigned kBlocksMaxX = 0x7fffffff;
constexpr unsigned kBlocksMaxYZ = 0xffff;

cudaError_t last_error = cudaSuccess;

std::unordered_set<cudaStream_t>& streams() {
  static auto* all = new std::unordered_set<cudaStream_t>;
  return *all;
}

// The allowed shared memory of each kernel on the current device.
std::unordered_map<const void*, int>& shared_allowed() {
  static auto* of_kernels = new std::array<std::unordered_map<const void*, int>, kDevices>;
  return (*of_kernels)[static_cast<size_t>(current_device())];
}

// Does the first `count` items of all work that the stream ever had.
void finish_first(EmulatedStream& stream, int64_t count) {
  if (stream.done >= count) return;
  const MemoryInUse in_use(stream.device);
  while (stream.done < count) {
    const auto work = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.done;
    work();
  }
}

bool is_known(cudaStream_t stream) { return streams().contains(stream); }

void must_be_known(cudaStream_t stream) {
  if (!is_known(stream)) broken("a stream that is the default one or not there any more", Place::current());
}

void must_be_current(cudaStream_t stream) {
  must_be_known(stream);
  if (stream->device != current_device()) broken("a stream of another device than the current one", Place::current());
}

}  // namespace

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  must_be_current(stream);
  stream->work.push_back(std::move(work));
}

void finish_all() {
  for (const cudaStream_t stream : streams()) finish_first(*stream, stream->enqueued());
}

cudaError_t allow_shared(const void* kernel, int bytes) {
  if (bytes < 0 || bytes > kSharedMost) return keep(cudaErrorInvalidValue);
  shared_allowed()[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, const Grid& grid, cudaStream_t stream, std::function<void()> work) {
  const auto allowed = shared_allowed().find(kernel);
  const int shared_most = allowed == shared_allowed().end() ? kSharedUnasked : allowed->second;
  const dim3& blocks = grid.blocks;
  const bool none = blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || grid.threads <= 0;
  const bool many =
      blocks.x > kBlocksMaxX || blocks.y > kBlocksMaxYZ || blocks.z > kBlocksMaxYZ || grid.threads > kThreadsMax;
  if (none || many) return keep(cudaErrorInvalidConfiguration);
  if (grid.shared_bytes > static_cast<size_t>(shared_most)) return keep(cudaErrorInvalidValue);
  enqueue(stream, [grid, work = std::move(work)] { run_grid(grid, work); });
  return cudaSuccess;
}

}  // namespace cairn::kernels::cuda::emulated

using namespace cairn::kernels::cuda::emulated;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= kDevices) return keep(cudaErrorInvalidValue);
  *value = attribute == cudaDevAttrMultiProcessorCount ? kMultiprocessors : kSharedMost;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new EmulatedStream{.device = current_device(), .work = {}};
  streams().insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaStreamSynchronize(stream);
  streams().erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  must_be_known(stream);
  finish_first(*stream, stream->enqueued());
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EmulatedEvent{.device = current_device()};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  must_be_current(stream);
  if (event->device != stream->device) broken("an event of another device than its stream", Place::current());
  event->stream = stream;
  event->after = stream->enqueued();
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (is_known(event->stream)) finish_first(*event->stream, event->after);
  return cudaSuccess;
}
// NOLINTEND(readability-identifier-naming)
