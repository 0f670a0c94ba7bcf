/// Fibers: stacks between which a host thread switches, used to run an emulated block of threads on one thread.
#pragma once

#include <cstddef>

namespace cairn::cuda::emulated {

/// A function with a stack of its own. AddressSanitizer is told about the switches.
class Fiber {
 public:
  /// `entry` never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues where the fiber left, or at its entry, until it leaves. Not to be called from a fiber.
  void resume();
  /// Called within the fiber: returns to the caller of resume().
  void leave();

 private:
  static void begin();
  void arrive();

  void (*const entry_)();
  std::byte* memory_ = nullptr;
  void* own_ = nullptr;     // stack pointer of this fiber while it is suspended
  void* caller_ = nullptr;  // stack pointer of the caller of resume()
  // State of both stacks for AddressSanitizer.
  void* own_frames_ = nullptr;
  const void* caller_bottom_ = nullptr;
  size_t caller_bytes_ = 0;
};

}  // namespace cairn::cuda::emulated
