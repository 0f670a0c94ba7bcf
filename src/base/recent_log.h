/// Where else the lines of the log go: the last of them are kept, for who looks at the server from elsewhere, and a
/// program that has the engine as a library gets all of them in place of standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace cairn {

/// Lines that are kept, and what is kept of each.
inline constexpr size_t kRecentLogLinesMax = 200;
inline constexpr size_t kRecentLogTextBytesMax = 1'024;

struct LogRecord {
  int64_t number = 0;  ///< counts all lines from 1
  std::chrono::system_clock::time_point time{};
  LogLevel level = LogLevel::kInfo;
  std::string text;  ///< a single line, as the log has it
};

/// Keeps a line; without memory it is not kept. Thread-safe.
void keep_log_line(LogLevel level, std::string_view text) noexcept;
/// The lines that are kept and whose number is above `after`, in their order. Thread-safe.
std::vector<LogRecord> recent_log_lines(int64_t after = 0);

/// Hears a line, on the thread that logs it. `text` is a single line. It must not throw.
using LogSink = void (*)(LogLevel level, std::string_view text);
/// From now on lines go there in place of standard error; null: to standard error. Thread-safe.
void set_log_sink(LogSink sink);

}  // namespace cairn
