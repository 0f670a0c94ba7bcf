#include "kernels/cuda/emulated/fiber.h"

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

namespace cairn::cuda::emulated {
namespace {

// Sanitizers make stack frames several times as large.
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kSavedWords = 6;

Fiber* current = nullptr;

}  // namespace

Fiber::Fiber(void (*entry)()) : entry_(entry) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CAIRN_CHECK(memory != MAP_FAILED && mprotect(memory, kGuardBytes, PROT_NONE) == 0);
  memory_ = static_cast<std::byte*>(memory);
  // Set up as if begin() had been called without a caller: its address is where the switch returns to, and one word
  // further the stack is aligned to 16.
  auto* top = reinterpret_cast<uint64_t*>(memory_ + kGuardBytes + kStackBytes) - 2;
  *top = reinterpret_cast<uint64_t>(&Fiber::begin);
  own_ = top - kSavedWords;
}

Fiber::~Fiber() { munmap(memory_, kGuardBytes + kStackBytes); }

void Fiber::begin() {
  current->arrive();
  current->entry_();
}

void Fiber::arrive() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_frames_, &caller_bottom_, &caller_bytes_);
#endif
}

void Fiber::resume() {
  current = this;
#if defined(__SANITIZE_ADDRESS__)
  void* frames = nullptr;
  __sanitizer_start_switch_fiber(&frames, memory_ + kGuardBytes, kStackBytes);
#endif
  cairn_change_stack(&caller_, own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&own_frames_, caller_bottom_, caller_bytes_);
#endif
  cairn_change_stack(&own_, caller_);
  arrive();
}

}  // namespace cairn::cuda::emulated
