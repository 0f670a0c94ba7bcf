/// Errors of what failed on an engine's thread, which reach its request though there is no memory. The log has a line
/// of each where it goes to the client (net/failure_log.h).
#pragma once

#include <exception>
#include <expected>

#include "base/error.h"

namespace cairn {

/// Needs no memory.
Error out_of_memory() noexcept;
/// The error itself, or out_of_memory().
Error copy_of(const Error& error) noexcept;
/// out_of_memory() for std::bad_alloc; otherwise kInternal, with what the exception says.
Error thrown(const std::exception& exception) noexcept;

/// The Result of `stage`; of an exception the error. So who calls it says in one place what a failure takes with it.
template <class Stage>
auto guarded(Stage&& stage) -> decltype(stage()) try {
  return stage();
} catch (const std::exception& exception) {
  return std::unexpected(thrown(exception));
}

}  // namespace cairn
