/// Log lines to standard error: time, level, text. Never called from hot loops.
///
/// A line tells the truth whatever went into it: `printable` (base/text/printable.h) makes one line of the text, which
/// is cut at kLogTextBytesMax. Logging never waits for whoever reads the log, and never throws: lines that nobody takes
/// are lost and counted, and the next one that goes through tells how many.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace cairn {

/// With time, level and colours a line still goes into a pipe whole or not at all (PIPE_BUF, 4,096 on Linux).
inline constexpr size_t kLogTextBytesMax = 3'840;

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Lines below `level` are dropped. Default kInfo. Thread-safe.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
/// Thread-safe; one call is one line.
void log_line(LogLevel level, std::string_view text) noexcept;
/// What the functions below do.
void log_formatted(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept;

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_formatted(LogLevel::kDebug, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_formatted(LogLevel::kInfo, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarning)) log_formatted(LogLevel::kWarning, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kError)) log_formatted(LogLevel::kError, format, fmt::make_format_args(args...));
}

/// The lines' way to a descriptor. Thread-safe.
class LogWriter {
 public:
  /// `descriptor` stays open, and its flags, which other programs may share, stay as they are. Where it becomes another
  /// file, lines follow it.
  explicit LogWriter(int descriptor);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void line(LogLevel level, std::string_view text) noexcept;

 private:
  bool put(std::string line);
  bool put_rest();
  void follow();

  const int named_;  // as it was given
  int descriptor_;   // where lines are written
  bool known_ = false;
  uint64_t device_ = 0, inode_ = 0;  // of the file that named_ was when descriptor_ was chosen
  bool own_ = false;                 // opened here
  bool socket_ = false;
  bool coloured_ = false;
  std::mutex mutex_;
  std::string rest_;  // of a line that was taken in part
  int64_t lost_ = 0;
};

/// For lines that others can cause: so many in a while, and then how many more there were. Thread-safe.
class LogRate {
 public:
  LogRate(int lines_max, std::chrono::seconds period) : lines_max_(lines_max), period_(period) {}
  /// Whether there is room for a line at `now`; `left_out` is how many had none since the last time there was.
  bool admits(std::chrono::steady_clock::time_point now, int64_t& left_out);

 private:
  const int lines_max_;
  const std::chrono::seconds period_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point begin_{};
  int lines_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace cairn
