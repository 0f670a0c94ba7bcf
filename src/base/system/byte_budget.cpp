#include "base/system/byte_budget.h"

namespace cairn {

bool ByteBudget::take(int64_t bytes) {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_max_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

ByteShare& ByteShare::operator=(ByteShare&& other) noexcept {
  if (this == &other) return *this;
  shrink_to(0);
  budget_ = other.budget_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool ByteShare::grow_to(int64_t bytes) {
  if (bytes <= bytes_) return true;
  if (budget_ && !budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void ByteShare::shrink_to(int64_t bytes) {
  if (bytes >= bytes_) return;
  if (budget_) budget_->give(bytes_ - bytes);
  bytes_ = bytes;
}

}  // namespace cairn
