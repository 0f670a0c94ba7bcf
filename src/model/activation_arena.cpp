#include "model/activation_arena.h"

#include <cstddef>

#include "base/check.h"

namespace cairn::model {

void ActivationArena::add_array(Pointer pointer, int64_t elements) {
  static_assert(sizeof(float) == sizeof(int32_t));
  CAIRN_CHECK(elements >= 0 && memory_.data() == nullptr);
  arrays_.push_back({pointer, bytes_});
  bytes_ += (elements * int64_t{sizeof(float)} + kAlignment - 1) / kAlignment * kAlignment;
}

Result<void> ActivationArena::allocate(kernels::DeviceMemory& device) {
  CAIRN_TRY(memory_, device.allocate(bytes_));
  auto* const begin = static_cast<std::byte*>(memory_.data());
  for (const Array& array : arrays_) {
    std::visit([&]<class T>(T** pointer) { *pointer = reinterpret_cast<T*>(begin + array.offset); }, array.pointer);
  }
  arrays_.clear();
  return {};
}

}  // namespace cairn::model
