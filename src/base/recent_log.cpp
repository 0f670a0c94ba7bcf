#include "base/recent_log.h"

#include <deque>
#include <exception>
#include <mutex>

#include "base/text/printable.h"

namespace cairn {
namespace {

struct RecentLines {
  std::mutex mutex;
  std::deque<LogRecord> lines;
  int64_t count = 0;
};

RecentLines& recent_lines() {
  static RecentLines instance;
  return instance;
}

}  // namespace

void keep_log_line(LogLevel level, std::string_view text) noexcept {
  try {
    std::string kept = cut_text(printable(text, kRecentLogTextBytesMax), kRecentLogTextBytesMax);
    RecentLines& recent = recent_lines();
    const std::lock_guard lock(recent.mutex);
    recent.lines.push_back({++recent.count, std::chrono::system_clock::now(), level, std::move(kept)});
    if (recent.lines.size() > kRecentLogLinesMax) recent.lines.pop_front();
  } catch (const std::exception&) {  // NOLINT: a line that cannot be kept has been written all the same
  }
}

std::vector<LogRecord> recent_log_lines(int64_t after) {
  RecentLines& recent = recent_lines();
  const std::lock_guard lock(recent.mutex);
  std::vector<LogRecord> found;
  for (const LogRecord& line : recent.lines)
    if (line.number > after) found.push_back(line);
  return found;
}

}  // namespace cairn
