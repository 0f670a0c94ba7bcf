#include "base/system/unwinding_reserve.h"

#include <sys/mman.h>

#include <atomic>
#include <exception>
#include <new>

namespace cairn {
namespace {

std::atomic<void*> reserve{nullptr};
std::atomic<bool> installed{false};

void find_memory() {
  void* const mine = std::uncaught_exceptions() > 0 ? reserve.exchange(nullptr) : nullptr;
  if (mine == nullptr) throw std::bad_alloc();
  ::munmap(mine, kUnwindingReserveBytes);
}

}  // namespace

void install_unwinding_reserve() {
  installed = true;
  refill_unwinding_reserve();
  std::set_new_handler(find_memory);
}

void refill_unwinding_reserve() noexcept {
  if (!installed || reserve.load() != nullptr) return;
  void* const made =
      ::mmap(nullptr, kUnwindingReserveBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, made)) ::munmap(made, kUnwindingReserveBytes);
}

}  // namespace cairn
