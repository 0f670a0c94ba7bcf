#include "engine/request_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn {

Result<void> RequestQueue::push(std::unique_ptr<Submission> submission) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return fail(Code::kUnavailable, "this model is being unloaded; send the request again later");
    if (size_ >= size_max_) {
      return fail(Code::kQueueFull, "{} requests are waiting already, as many as may; try again later", size_max_);
    }
    entries_.push_back(std::move(submission));
    ++size_;
  }
  changed_.notify_one();
  return {};
}

void RequestQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
}

void RequestQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped_ || !entries_.empty(); });
}

void RequestQueue::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!stopped_) changed_.wait_for(lock, timeout);
}

std::deque<std::unique_ptr<Submission>>::iterator RequestQueue::first(Priority priority) {
  auto first = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if ((*entry)->request.priority != priority) continue;
    if (first == entries_.end() || (*entry)->deadline_ns < (*first)->deadline_ns) first = entry;
  }
  return first;
}

std::optional<int64_t> RequestQueue::first_deadline(Priority priority) {
  if (size() == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto entry = first(priority);
  if (entry == entries_.end()) return std::nullopt;
  return (*entry)->deadline_ns;
}

std::unique_ptr<Submission> RequestQueue::pop(Priority priority) {
  const std::lock_guard lock(mutex_);
  const auto entry = first(priority);
  if (entry == entries_.end()) return nullptr;
  std::unique_ptr<Submission> popped = std::move(*entry);
  entries_.erase(entry);
  --size_;
  return popped;
}

std::vector<std::unique_ptr<Submission>> RequestQueue::take(FunctionRef<bool(const Submission&)> select) {
  std::vector<std::unique_ptr<Submission>> taken;
  if (size() == 0) return taken;
  const std::lock_guard lock(mutex_);
  const auto rest = std::stable_partition(entries_.begin(), entries_.end(),
                                          [&](const std::unique_ptr<Submission>& entry) { return !select(*entry); });
  taken.assign(std::make_move_iterator(rest), std::make_move_iterator(entries_.end()));
  entries_.erase(rest, entries_.end());
  size_ -= static_cast<int32_t>(taken.size());
  return taken;
}

}  // namespace cairn
