/// Shows the progress of a long command.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cairn {

/// One line on a terminal, overwritten at each call; prints nothing to a file or pipe.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text);
  bool on_terminal() const { return terminal_; }

 private:
  bool terminal_;
  bool shown_ = false;
};

/// How far something has come since this was made, and how long the rest takes at the speed so far.
class ProgressClock {
 public:
  ProgressClock() : begin_(std::chrono::steady_clock::now()) {}
  /// " 45%, 1:05 left"; " 45%" in the first second.
  std::string text(int64_t done, int64_t total) const;

 private:
  std::chrono::steady_clock::time_point begin_;
};

/// "1.20 GiB", "3.4 MiB", "5.6 KiB".
std::string size_text(int64_t bytes);

}  // namespace cairn
