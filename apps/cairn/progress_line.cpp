#include "progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/text/printable.h"

namespace cairn {

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::show(const std::string& text) {
  if (!terminal_) return;
  shown_ = true;
  std::fputs(("\r\x1b[K" + printable(text)).c_str(), stderr);  // names in it may come from a file
  std::fflush(stderr);
}

std::string ProgressClock::text(int64_t done, int64_t total) const {
  if (total <= 0) return "100%";
  const std::string percent = fmt::format("{:3}%", 100 * done / total);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  if (spent < std::chrono::seconds(1) || done <= 0) return percent;
  const auto left = static_cast<int64_t>(spent.count() * static_cast<double>(total - done) / static_cast<double>(done));
  return percent + fmt::format(", {}:{:02} left", left / 60, left % 60);
}

std::string size_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", number / (1 << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", number / (1 << 20));
  return fmt::format("{:.1f} KiB", number / (1 << 10));
}

}  // namespace cairn
