/// Stacks that a thread of the host changes between: how an emulated block of threads runs on one of them.
#pragma once

#include <cstddef>

namespace cairn::cuda::emulated {

/// A function with a stack of its own. AddressSanitizer knows about it.
class Fiber {
 public:
  /// `entry` never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on where the fiber left, or at the entry, until it leaves. Not from a fiber.
  void resume();
  /// From within: back to who resumed it.
  void leave();

 private:
  static void begin();
  void arrive();

  void (*const entry_)();
  std::byte* memory_ = nullptr;
  void* own_ = nullptr;     // this stack's pointer while others run
  void* caller_ = nullptr;  // that of who resumed it
  // What AddressSanitizer wants to know of both.
  void* own_frames_ = nullptr;
  const void* caller_bottom_ = nullptr;
  size_t caller_bytes_ = 0;
};

}  // namespace cairn::cuda::emulated
