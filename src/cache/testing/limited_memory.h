/// Memory of a device for tests and benchmarks: the machine's own, with a limit.
#pragma once

#include <cstdlib>
#include <cstring>

#include "kernels/device_memory.h"

namespace cairn::cache {

class LimitedMemory : public kernels::DeviceMemory {
 public:
  int64_t bytes_max = int64_t{1} << 40;  ///< of one allocation

  Result<kernels::Buffer> allocate(int64_t bytes) override {
    if (bytes > bytes_max) return fail(Code::kOutOfMemory, "over the limit of the test");
    return kernels::Buffer(std::calloc(1, bytes), bytes, [](void* data, size_t) { std::free(data); });
  }
  void read(const void* from, int64_t bytes, void* to) override { std::memcpy(to, from, bytes); }
  void write(const void* from, int64_t bytes, void* to) override { std::memcpy(to, from, bytes); }
  void copy(const void* from, int64_t bytes, void* to) override { std::memcpy(to, from, bytes); }
};

}  // namespace cairn::cache
