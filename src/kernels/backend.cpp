#include "kernels/backend.h"

#include <utility>

namespace cairn {

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), free_(other.free_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(free_, other.free_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) free_(data_, bytes_);
}

}  // namespace cairn
