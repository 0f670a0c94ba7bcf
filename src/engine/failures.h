/// Errors of failures on an engine's thread, which reach their request even if there is no memory. The log has a line
/// about each where it goes to the client (net/failure_log.h).
#pragma once

#include <exception>
#include <expected>

#include "base/error.h"

namespace cairn::engine {

/// Allocates nothing.
Error out_of_memory() noexcept;
/// A copy of the error, or out_of_memory() if copying fails.
Error copy_of(const Error& error) noexcept;
/// out_of_memory() for std::bad_alloc; otherwise kInternal with the exception's text.
Error thrown(const std::exception& exception) noexcept;

/// The Result of `stage`, or an error made from its exception. So the caller says in one place what a failure ends.
template <class Stage>
auto guarded(Stage&& stage) -> decltype(stage()) try {
  return stage();
} catch (const std::exception& exception) {
  return std::unexpected(thrown(exception));
}

}  // namespace cairn::engine
