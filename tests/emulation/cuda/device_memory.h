/// Tracks which addresses belong to the emulated devices.
#pragma once

namespace cairn::kernels::cuda::emulated {

/// While an object lives, its device is running: the device's memory may be accessed, that of the others may not.
class MemoryInUse {
 public:
  explicit MemoryInUse(int device);
  ~MemoryInUse();
  MemoryInUse(const MemoryInUse&) = delete;

 private:
  const int device_;
};

}  // namespace cairn::kernels::cuda::emulated
