#include "progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

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

std::string size_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", number / (1 << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", number / (1 << 20));
  return fmt::format("{:.1f} KiB", number / (1 << 10));
}

}  // namespace cairn
