#include "emulation/cuda/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the registers that a call must preserve on the current stack, stores the stack pointer to *from and switches to
// the other stack. swapcontext would make a system call for the signal mask each time, and a block switches stacks
// millions of times.
extern "C" void cairn_change_stack(void** from, void* to);
asm(R"(
.text
.type cairn_change_stack, @function
cairn_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cairn_change_stack, . - cairn_change_stack
)");

namespace cairn::kernels::cuda::emulated {
namespace {

// Sanitizers make stack frames several times as large.
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kSavedWords = 6;
// The stacks of a warp begin in different lines of the first-level cache, which its lanes use in turn.
constexpr size_t kColours = 32;
constexpr size_t kColourBytes = 128;

}  // namespace

Fibers::Fibers(size_t count, void (*entry)()) : bytes_(count * (kGuardBytes + kStackBytes)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CAIRN_CHECK(memory != MAP_FAILED);
  memory_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < count; ++i) {
    std::byte* const guard = memory_ + i * (kGuardBytes + kStackBytes);
    CAIRN_CHECK(mprotect(guard, kGuardBytes, PROT_NONE) == 0);
    // Set up as if `entry` had been called without a caller: its address is where the switch returns to, and one word
    // further the stack is aligned to 16.
    std::byte* const end = guard + kGuardBytes + kStackBytes - i % kColours * kColourBytes;
    auto* top = reinterpret_cast<uint64_t*>(end) - 2;
    *top = reinterpret_cast<uint64_t>(entry);
    stacks_.push_back(top - kSavedWords);
  }
}

Fibers::~Fibers() { munmap(memory_, bytes_); }

void Fibers::enter(size_t number) {
#if defined(__SANITIZE_ADDRESS__)
  void* frames = nullptr;
  const void* own_bottom = nullptr;
  size_t own_bytes = 0;
  __sanitizer_start_switch_fiber(&frames, memory_, bytes_);
  __sanitizer_finish_switch_fiber(nullptr, &own_bottom, &own_bytes);
#endif
  cairn_change_stack(&caller_, stacks_[number]);
#if defined(__SANITIZE_ADDRESS__)
  void* frames_of_fibers = nullptr;
  __sanitizer_start_switch_fiber(&frames_of_fibers, own_bottom, own_bytes);
  __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
#endif
}

void Fibers::change(size_t own, size_t other) { cairn_change_stack(&stacks_[own], stacks_[other]); }

void Fibers::leave(size_t own) { cairn_change_stack(&stacks_[own], caller_); }

}  // namespace cairn::kernels::cuda::emulated
