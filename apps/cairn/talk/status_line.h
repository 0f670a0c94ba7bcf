/// A line on standard error that says what one waits for, written over and erased once there is something to read.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace cairn {

/// Only on a terminal, and only where the wait is long enough to wonder.
class StatusLine {
 public:
  /// `text` is called on another thread, several times a second; an empty text shows nothing.
  explicit StatusLine(std::function<std::string()> text);
  ~StatusLine() { erase(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// It does not come again. May be called more than once.
  void erase();

 private:
  void run();

  const std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace cairn
