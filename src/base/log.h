/// Log lines to standard error: time, level, text. Never called from hot loops.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace cairn {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Lines below `level` are dropped. Default kInfo. Thread-safe.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
/// Thread-safe; one call is one line.
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarning)) log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kError)) log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace cairn
