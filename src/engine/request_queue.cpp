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

std::unique_ptr<Submission> RequestQueue::pop_if(FunctionRef<bool(const Submission&)> accept) {
  const std::lock_guard lock(mutex_);
  if (entries_.empty() || !accept(*entries_.front())) return nullptr;
  std::unique_ptr<Submission> first = std::move(entries_.front());
  entries_.pop_front();
  --size_;
  return first;
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
