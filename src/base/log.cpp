#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/recent_log.h"
#include "base/text/printable.h"

namespace cairn {
namespace {

// Additional bytes of a line: "00:00:00.000 ", the longest level with its colours, a blank and the line's end; or the
// names of a JSON object's members and the time.
constexpr size_t kLineExtraMax = 80;
static_assert(kLogTextBytesMax + kLineExtraMax <= PIPE_BUF);

struct LevelText {
  std::string_view name;
  std::string_view colour;  // SGR sequence of ECMA-48
};

LevelText level_text(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return {"debug", "\x1b[36m"};
    case LogLevel::kInfo:
      return {"info", "\x1b[32m"};
    case LogLevel::kWarning:
      return {"warning", "\x1b[33m\x1b[1m"};
    case LogLevel::kError:
    case LogLevel::kOff:
      break;
  }
  return {"error", "\x1b[31m\x1b[1m"};
}

std::atomic<LogFormat> format_now{LogFormat::kText};

// "2026-01-31T12:00:00.000Z" of the system's clock.
std::string json_line(LogLevel level, std::string_view text, std::string_view members) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  // Escapes of a JSON string can double what `printable` gives.
  const std::string shown =
      cut_text(printable(text, kLogTextBytesMax), (kLogTextBytesMax - std::min(members.size(), kLogTextBytesMax)) / 2);
  return fmt::format(R"({{"time":"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z","level":"{}","message":{}{}{}}})"
                     "\n",
                     utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms,
                     level_text(level).name, nlohmann::json(shown).dump(), members.empty() ? "" : ",", members);
}

std::string formatted_line(LogLevel level, std::string_view text, std::string_view members, bool coloured) {
  if (format_now.load(std::memory_order_relaxed) == LogFormat::kJson) return json_line(level, text, members);
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const LevelText shown = level_text(level);
  return fmt::format("{:02}:{:02}:{:02}.{:03} {}{}{} {}\n", local.tm_hour, local.tm_min, local.tm_sec, ms,
                     coloured ? shown.colour : "", shown.name, coloured ? "\x1b[m" : "",
                     cut_text(printable(text, kLogTextBytesMax), kLogTextBytesMax));
}

bool shows_colours(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::atomic<LogLevel> level_now{LogLevel::kInfo};

LogWriter& writer() {
  static LogWriter instance(STDERR_FILENO);
  return instance;
}

std::atomic<LogSink> sink_now{nullptr};

void tell(LogLevel level, std::string_view text, std::string_view members) noexcept {
  const LogSink sink = sink_now.load();
  if (sink == nullptr) return writer().line(level, text, members);
  try {
    sink(level, cut_text(printable(text, kLogTextBytesMax), kLogTextBytesMax));
  } catch (const std::exception&) {
    sink(level, "no memory for a line of this log");
  }
}

}  // namespace

// A pipe or a terminal is opened again, to get an open file of our own that can be non-blocking (O_NONBLOCK belongs to
// the open file, which the shell and other programs share). If that fails, put_rest polls before it writes.
LogWriter::LogWriter(int descriptor) : named_(descriptor), descriptor_(descriptor) { follow(); }

// Checks whether the descriptor has become another file since the last line: a test may capture it, a program may
// detach.
void LogWriter::follow() {
  struct stat status{};
  if (::fstat(named_, &status) != 0) return;
  if (known_ && device_ == status.st_dev && inode_ == status.st_ino) return;
  if (own_) ::close(descriptor_);
  known_ = true;
  own_ = false;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  descriptor_ = named_;
  coloured_ = shows_colours(named_);
  rest_.clear();
  socket_ = S_ISSOCK(status.st_mode);
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return;
  const std::string path = fmt::format("/proc/self/fd/{}", named_);
  const int again = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (again < 0) return;
  descriptor_ = again;
  own_ = true;
}

LogWriter::~LogWriter() {
  if (own_) ::close(descriptor_);
}

// Writes the rest of a partly written line. True if nothing is left.
bool LogWriter::put_rest() {
  while (!rest_.empty()) {
    ssize_t written = -1;
    if (socket_) {
      written = ::send(descriptor_, rest_.data(), rest_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      pollfd ready{descriptor_, POLLOUT, 0};
      const int found = ::poll(&ready, 1, 0);
      if (found < 0 && errno == EINTR) continue;
      if (found <= 0) return false;
      written = ::write(descriptor_, rest_.data(), rest_.size());
    }
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest_.erase(0, static_cast<size_t>(written));
  }
  return true;
}

// Writes a line; false if it is lost. The rest of a partly written line is kept, so that it ends before the next one
// begins.
bool LogWriter::put(std::string line) {
  if (!put_rest()) return false;
  const size_t size = line.size();
  rest_ = std::move(line);
  if (put_rest() || rest_.size() < size) return true;
  rest_.clear();
  return false;
}

void LogWriter::line(LogLevel level, std::string_view text, std::string_view members) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    try {
      follow();
      const int64_t lost = lost_;
      if (lost > 0 &&
          put(formatted_line(LogLevel::kWarning, fmt::format("{} lines of this log were lost: nobody read them", lost),
                             {}, coloured_)))
        lost_ -= lost;
      if (lost_ > 0 || !put(formatted_line(level, text, members, coloured_))) lose();
    } catch (const std::bad_alloc&) {
      lose();
    }
  } catch (...) {  // NOLINT: a mutex that cannot be locked leaves nothing to tell, and nowhere to tell it
  }
}

void set_log_level(LogLevel level) { level_now.store(level, std::memory_order_relaxed); }
bool log_enabled(LogLevel level) { return level >= level_now.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view text) noexcept {
  tell(level, text, {});
  keep_log_line(level, text);
}

void set_log_format(LogFormat format) { format_now.store(format, std::memory_order_relaxed); }
LogFormat log_format() { return format_now.load(std::memory_order_relaxed); }
void set_log_sink(LogSink sink) { sink_now.store(sink); }
int64_t log_lines_lost() { return writer().lost(); }

void log_event(LogLevel level, std::string_view text, std::string_view members) noexcept {
  tell(level, text, members);
  keep_log_line(level, text);
}

void log_formatted(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    log_line(level, fmt::vformat(format, args));
  } catch (const std::exception&) {
    tell(level, "no memory for a line of this log", {});
  }
}

bool LogRate::admits(std::chrono::steady_clock::time_point now, int64_t& left_out) {
  const std::lock_guard lock(mutex_);
  if (lines_ == 0 || now - begin_ >= period_) {
    begin_ = now;
    lines_ = 0;
  }
  if (lines_ >= lines_max_) {
    ++left_out_;
    return false;
  }
  ++lines_;
  left_out = std::exchange(left_out_, 0);
  return true;
}

}  // namespace cairn
