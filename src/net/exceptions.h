/// Handling of exceptions where they must be caught: no exception of one connection ends the process.
#pragma once

#include <exception>
#include <string_view>

namespace cairn::net {

/// Writes one line to the log, "`what` failed: ..."; none for an operation that was cancelled.
void log_exception(std::string_view what, const std::exception_ptr& exception) noexcept;
bool is_out_of_memory(const std::exception_ptr& exception) noexcept;

}  // namespace cairn::net
