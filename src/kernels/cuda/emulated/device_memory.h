/// Which addresses are the emulated device's.
#pragma once

namespace cairn::cuda::emulated {

/// While it lives, the device works: its memory may be touched.
class MemoryInUse {
 public:
  MemoryInUse();
  ~MemoryInUse();
  MemoryInUse(const MemoryInUse&) = delete;
};

}  // namespace cairn::cuda::emulated
