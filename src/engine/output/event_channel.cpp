#include "engine/output/event_channel.h"

#include <iterator>
#include <new>
#include <utility>

namespace cairn::engine {

bool EventChannel::publish(Events&& step) noexcept {
  if (step.finished) {
    const auto listener = std::exchange(usage_listener_, nullptr);
    if (listener != nullptr && step.finish.timings.queue.count() > 0) listener->request_ended(step.finish.usage);
  }
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || pending_.finished || finish_taken_) return true;
    if (step.prefill) pending_.prefill = step.prefill;
    if (!step.prompt.empty()) pending_.prompt = std::move(step.prompt);
    try {
      pending_.tokens.reserve(pending_.tokens.size() + step.tokens.size());
      std::move(step.tokens.begin(), step.tokens.end(), std::back_inserter(pending_.tokens));
      waiting_ = pending_.tokens.size();
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
  return tell();
}

bool EventChannel::tell() noexcept try {
  ready_.notify_all();
  const std::lock_guard lock(notify_mutex_);
  if (notify_) notify_();
  return true;
} catch (...) {  // the callback may throw for lack of memory
  return false;
}

Events EventChannel::take() {
  finish_taken_ |= pending_.finished;
  waiting_ = 0;
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

UnnotifiedChannels::~UnnotifiedChannels() {
  while (pop() != nullptr) continue;  // pops one at a time, as each holds the next
}

void UnnotifiedChannels::publish(const std::shared_ptr<EventChannel>& channel, Events&& events) noexcept {
  if (!channel->publish(std::move(events))) push(channel);
}

bool UnnotifiedChannels::notify_again() noexcept {
  while (std::shared_ptr<EventChannel> channel = pop()) {
    if (channel->tell()) continue;
    push(std::move(channel));
    return false;
  }
  return true;
}

std::shared_ptr<EventChannel> UnnotifiedChannels::pop() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<EventChannel> channel = std::move(first_);
  if (channel == nullptr) return nullptr;
  first_ = std::move(channel->next_unnotified_);
  channel->is_unnotified_ = false;
  return channel;
}

void UnnotifiedChannels::push(std::shared_ptr<EventChannel> channel) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(channel->is_unnotified_, true)) return;
  channel->next_unnotified_ = std::move(first_);
  first_ = std::move(channel);
}

}  // namespace cairn::engine
