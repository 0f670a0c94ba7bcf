/// Failures of an engine's thread, told though there is no memory; one line in the log, however many there are.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string_view>

#include "base/error.h"

namespace cairn {

/// Needs no memory.
Error out_of_memory() noexcept;
/// The error itself, or out_of_memory().
Error copy_of(const Error& error) noexcept;
/// kInternal, with what the exception says.
Error thrown(const std::exception& exception) noexcept;

/// A line comes so often at most; the next one says how many other requests have failed meanwhile.
inline constexpr std::chrono::seconds kFailureLogInterval{1};

/// Thread: one.
class FailureLog {
 public:
  /// `now_ns` of a clock that does not go back. Returns whether a line was written: without memory for it there is
  /// none.
  bool log(int64_t now_ns, std::string_view request_id, const Error& error) noexcept;

 private:
  int64_t logged_ns_ = -1;  // -1: never
  int64_t unlogged_ = 0;
};

}  // namespace cairn
