#include "kernels/device_memory.h"

#include <atomic>
#include <utility>

#include "base/system/machine.h"

namespace cairn::kernels {
namespace {

std::atomic<int64_t> bytes_of_buffers = 0;

}  // namespace

Buffer::Buffer(void* data, size_t bytes, Free free) : data_(data), bytes_(bytes), free_(free) {
  bytes_of_buffers += static_cast<int64_t>(bytes);
}

int64_t Buffer::bytes_in_all() { return bytes_of_buffers; }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), free_(other.free_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(free_, other.free_);
  return *this;
}

int64_t DeviceMemory::available_bytes() const { return available_memory_bytes(); }

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  bytes_of_buffers -= static_cast<int64_t>(bytes_);
  free_(data_, bytes_);
}

}  // namespace cairn::kernels
