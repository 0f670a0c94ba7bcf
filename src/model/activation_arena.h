/// Memory for the activations of a step, in one allocation: how large, and where each array of it is.
///
/// Whoever needs arrays lists them once, as pointers of a struct. The list without allocate() says how many bytes a
/// plan counts, and the same list with it gives the pointers:
///
///     hidden        query         key      logits
///     |R * width    |R * heads    |...     |L * vocabulary     each begins at a multiple of kAlignment bytes
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/error.h"
#include "kernels/device_memory.h"

namespace cairn::model {

class ActivationArena {
 public:
  /// Bytes; what a Buffer is aligned to, and what kernels may rely on.
  static constexpr int64_t kAlignment = 64;

  /// The array comes behind those added before. `array` is set by allocate(), until when it stays where it is. An array
  /// without elements takes no bytes; its pointer is not to be used.
  void add(float*& array, int64_t elements) { add_array(&array, elements); }
  void add(int32_t*& array, int64_t elements) { add_array(&array, elements); }

  /// Bytes of all arrays.
  int64_t bytes() const { return bytes_; }
  /// Makes all arrays, zeroed, in memory of `device`; called once. Errors: kOutOfMemory.
  Result<void> allocate(kernels::DeviceMemory& device);
  /// The first array, once they are made.
  float* floats() const { return memory_.floats(); }

 private:
  using Pointer = std::variant<float**, int32_t**>;
  struct Array {
    Pointer pointer;
    int64_t offset = 0;  // bytes
  };
  void add_array(Pointer pointer, int64_t elements);

  std::vector<Array> arrays_;  // none once they are made
  int64_t bytes_ = 0;
  kernels::Buffer memory_;
};

}  // namespace cairn::model
