/// Log lines to standard error: time, level, text, or each as a JSON object. Never called from hot loops.
///
/// A text cannot forge lines: `printable` (base/text/printable.h) makes a single line of it, which is cut at
/// kLogTextBytesMax. Logging never waits for the reader of the log, and never throws: lines that cannot be written are
/// lost and counted, and the next line that can be written gives their number.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace cairn {

/// Maximum bytes of a text; with time, level and colours such a line is still written to a pipe atomically (PIPE_BUF,
/// 4,096 on Linux).
inline constexpr size_t kLogTextBytesMax = 3'840;

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

enum class LogFormat {
  kText,  ///< "00:00:00.000 info text"
  kJson,  ///< {"time": RFC 3339, "level": ..., "message": text, ...}
};

/// Lines below `level` are dropped. Default kInfo. Thread-safe.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
/// The format of every line. Default kText. Thread-safe.
void set_log_format(LogFormat format);
LogFormat log_format();
/// Lines that could not be written since the start.
int64_t log_lines_lost();
/// Writes one line. Thread-safe.
void log_line(LogLevel level, std::string_view text) noexcept;
/// Writes one line, which in JSON has `members` too: what is between the braces of a JSON object without members of the
/// names above; at most kLogTextBytesMax bytes.
void log_event(LogLevel level, std::string_view text, std::string_view members) noexcept;
/// Formats and writes a line; called by the functions below.
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

/// Writes lines to a descriptor. Thread-safe.
class LogWriter {
 public:
  /// `descriptor` stays open, and its flags, which other programs may share, are not changed. If the descriptor becomes
  /// another file, lines go to that.
  explicit LogWriter(int descriptor);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// `members`: see log_event.
  void line(LogLevel level, std::string_view text, std::string_view members = {}) noexcept;
  /// Lines that are not written yet, or never will be.
  int64_t lost() const { return all_lost_.load(std::memory_order_relaxed); }

 private:
  bool put(std::string line);
  bool put_rest();
  void follow();
  void lose() {
    ++lost_;
    all_lost_.fetch_add(1, std::memory_order_relaxed);
  }

  const int named_;  // as it was passed
  int descriptor_;   // the descriptor to which lines are written
  bool known_ = false;
  uint64_t device_ = 0, inode_ = 0;  // of the file that named_ was when descriptor_ was chosen
  bool own_ = false;                 // whether descriptor_ was opened here
  bool socket_ = false;
  bool coloured_ = false;
  std::mutex mutex_;
  std::string rest_;  // rest of a partly written line
  int64_t lost_ = 0;  // since a line told of them
  std::atomic<int64_t> all_lost_ = 0;
};

/// Limits the rate of lines that others can cause: a number of lines in a period, and then how many more there were.
/// Thread-safe.
class LogRate {
 public:
  LogRate(int lines_max, std::chrono::seconds period) : lines_max_(lines_max), period_(period) {}
  /// Whether a line may be written at `now`; `left_out` is the number of lines dropped since the last one.
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
