/// Shows the progress of a long command.
#pragma once

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

/// "1.20 GiB", "3.4 MiB", "5.6 KiB".
std::string size_text(int64_t bytes);

}  // namespace cairn
