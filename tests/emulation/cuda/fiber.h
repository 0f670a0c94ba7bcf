/// Fibers: stacks between which a host thread switches, used to run an emulated block of threads on one thread.
#pragma once

#include <cstddef>
#include <vector>

namespace cairn::kernels::cuda::emulated {

/// Calls of a function, each with a stack of its own, of which one runs at a time.
///
/// All stacks are one piece of memory. AddressSanitizer is told of it when the first fiber continues and when the last
/// one leaves, but not of the switches between fibers, which would take most of the time.
class Fibers {
 public:
  /// `entry` never returns.
  Fibers(size_t count, void (*entry)());
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Continues the fiber where it was suspended, or at its entry, until one calls leave(). Not to be called from a
  /// fiber.
  void enter(size_t number);
  /// Called within the fiber `own`: continues `other`, until another one continues `own`.
  void change(size_t own, size_t other);
  /// Called within the fiber `own`: returns to the caller of enter().
  void leave(size_t own);

 private:
  const size_t bytes_;  // of all stacks
  std::byte* memory_ = nullptr;
  std::vector<void*> stacks_;  // stack pointers of the suspended fibers
  void* caller_ = nullptr;     // stack pointer of the caller of enter()
};

}  // namespace cairn::kernels::cuda::emulated
