#include "engine/event_channel.h"

#include <iterator>
#include <new>
#include <utility>

namespace cairn {

void EventChannel::publish(Events&& step) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || pending_.finished || finish_taken_) return;
    try {
      pending_.tokens.reserve(pending_.tokens.size() + step.tokens.size());
      std::move(step.tokens.begin(), step.tokens.end(), std::back_inserter(pending_.tokens));
      stalled_ = pending_.tokens.size() >= kPendingTokensMax;
    } catch (const std::bad_alloc&) {
      cancel();
      step.finished = true;
      step.finish.reason = FinishReason::kError;
      step.finish.text.clear();
      step.finish.error = Error{Code::kOutOfMemory, "out of memory", {}};
    }
    if (step.finished) {
      pending_.finished = true;
      pending_.finish = std::move(step.finish);
    }
  }
  ready_.notify_all();
  const std::lock_guard lock(notify_mutex_);
  if (notify_) notify_();
}

Events EventChannel::take() {
  finish_taken_ |= pending_.finished;
  stalled_ = false;
  return std::exchange(pending_, {});
}

Events EventChannel::drain() {
  const std::lock_guard lock(mutex_);
  return take();
}

Events EventChannel::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, timeout, [this] { return has_events() || finish_taken_; });
  return take();
}

void EventChannel::on_events(std::function<void()> notify) {
  const std::lock_guard notify_lock(notify_mutex_);
  notify_ = std::move(notify);
  bool events = false;
  {
    const std::lock_guard lock(mutex_);
    events = has_events();
  }
  if (events && notify_) notify_();
}

void EventChannel::abandon() {
  cancel();
  const std::lock_guard notify_lock(notify_mutex_);
  notify_ = nullptr;
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  pending_ = {};
}

}  // namespace cairn
