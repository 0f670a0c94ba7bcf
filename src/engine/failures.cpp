#include "engine/failures.h"

#include <new>

namespace cairn::engine {

// The message is short enough for the string's inline storage, so that nothing is allocated.
Error out_of_memory() noexcept { return {Code::kOutOfMemory, "out of memory", {}}; }

Error copy_of(const Error& error) noexcept try { return error; } catch (...) {
  return out_of_memory();
}

Error thrown(const std::exception& exception) noexcept try {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return out_of_memory();
  return {Code::kInternal, fmt::format("an exception that nobody expected: {}", exception.what()), {}};
} catch (...) {
  return out_of_memory();
}

}  // namespace cairn::engine
