/// The border to C: errors as handles, and exceptions as errors.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "cairn.h"

struct cairn_error {
  cairn_code code = CAIRN_INTERNAL;
  std::string message;
  std::string param;
  std::string json;
};

namespace cairn::library {

/// What a catch block has caught.
Error caught() noexcept;
cairn_code code_of(Code code);
/// Gives the caller an error, if it wants one. Without memory for it, a static one.
void give(cairn_error** to, const Error& error) noexcept;
/// Frees what give() has made.
void release(cairn_error* error) noexcept;

/// Runs `work`, which returns a Result, and returns its value; on an error, `failed`. What `work` throws is an error.
template <class Work, class Value>
Value guarded(cairn_error** error, Value failed, const Work& work) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    auto result = work();
    if (result) return *std::move(result);
    give(error, result.error());
  } catch (...) {
    give(error, caught());
  }
  return failed;
}

/// Error: kInvalidArgument, the argument is NULL.
Result<void> check_given(const void* argument, std::string_view name);

/// A copy for a caller that frees it with cairn_free. Errors: kOutOfMemory.
Result<void*> copied(const void* data, size_t bytes);
/// The same with a zero byte behind it. `size` may be null.
Result<char*> copied_text(std::string_view text, size_t* size);
/// The same of numbers; not null even if there are none.
template <class T>
Result<T*> copied_array(std::span<const T> values) {
  CAIRN_TRY(void* const copy, copied(values.data(), values.size_bytes()));
  return static_cast<T*>(copy);
}

}  // namespace cairn::library
