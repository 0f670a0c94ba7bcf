/// Errors of what failed on an engine's thread, which reach its request though there is no memory. The log has a line
/// of each where it goes to the client (net/failure_log.h).
#pragma once

#include <exception>

#include "base/error.h"

namespace cairn {

/// Needs no memory.
Error out_of_memory() noexcept;
/// The error itself, or out_of_memory().
Error copy_of(const Error& error) noexcept;
/// kInternal, with what the exception says.
Error thrown(const std::exception& exception) noexcept;

}  // namespace cairn
