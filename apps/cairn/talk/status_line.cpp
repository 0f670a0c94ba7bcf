#include "talk/status_line.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "progress_line.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

constexpr auto kShownAfter = 300ms;
constexpr auto kShownEvery = 150ms;

}  // namespace

StatusLine::StatusLine(std::function<std::string()> text) : text_(std::move(text)) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { run(); });
}

void StatusLine::erase() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void StatusLine::run() {
  ProgressLine line;
  std::unique_lock lock(mutex_);
  for (auto wait = kShownAfter; !ends_.wait_for(lock, wait, [this] { return ended_; }); wait = kShownEvery) {
    if (const std::string text = text_(); !text.empty()) line.show(text);
  }
}

}  // namespace cairn
