/// What to do with an exception where it may go no further: nothing that one connection throws ends the process.
#pragma once

#include <exception>
#include <string_view>

namespace cairn::net {

/// One line of the log, "`what` failed: ..."; none for an operation that was cancelled.
void log_exception(std::string_view what, const std::exception_ptr& exception) noexcept;
bool is_out_of_memory(const std::exception_ptr& exception) noexcept;

}  // namespace cairn::net
