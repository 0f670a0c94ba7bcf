/// Which addresses are the emulated devices'.
#pragma once

namespace cairn::cuda::emulated {

/// While it lives, the device works: its memory may be touched, that of the others not.
class MemoryInUse {
 public:
  explicit MemoryInUse(int device);
  ~MemoryInUse();
  MemoryInUse(const MemoryInUse&) = delete;

 private:
  const int device_;
};

}  // namespace cairn::cuda::emulated
