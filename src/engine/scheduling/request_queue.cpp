#include "engine/scheduling/request_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/scheduling/fair_shares.h"

namespace cairn::engine {

Result<std::unique_ptr<Submission>> RequestQueue::push(std::unique_ptr<Submission> submission) {
  std::unique_ptr<Submission> displaced;
  std::optional<size_t> makes_room;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return fail(Code::kUnavailable, "this model is being unloaded; send the request again later");
    if (size_ >= size_max_) {
      displaced_error();  // made before it is needed, so that it needs no memory then
      makes_room = who_makes_room_for(submission->party);
      if (!makes_room) {
        return fail(Code::kQueueFull, "{} requests are waiting already, as many as may; try again later", size_max_);
      }
    }
    entries_.push_back(std::move(submission));
    ++size_;
    if (makes_room) displaced = take_out(entries_.begin() + static_cast<ptrdiff_t>(*makes_room));
  }
  changed_.notify_one();
  return displaced;
}

// The index of the entry that makes room; none if no party has enough more.
std::optional<size_t> RequestQueue::who_makes_room_for(const Party& party) const {
  Holdings waiting;
  for (const auto& entry : entries_) waiting.add(entry->party, 1);
  auto newest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const Party& other = (*entry)->party;
    if (!waiting.yields(other, party)) continue;
    if (newest == entries_.end() || waiting.of(other) >= waiting.of((*newest)->party)) newest = entry;
  }
  if (newest == entries_.end()) return std::nullopt;
  return static_cast<size_t>(newest - entries_.begin());
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

void RequestQueue::wait_until_stopped(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return stopped_.load(); });
}

bool RequestQueue::has(Priority priority) const {
  if (size() == 0) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_, [=](const auto& entry) { return entry->request.priority == priority; });
}

int32_t RequestQueue::size(Priority priority) const {
  if (size() == 0) return 0;
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(
      std::ranges::count_if(entries_, [=](const auto& entry) { return entry->request.priority == priority; }));
}

RequestQueue::Entries::const_iterator RequestQueue::find_first(Priority priority, Before before) const {
  const auto waiting = [](const Submission& entry) { return Waiting{entry.party, entry.deadline_ns}; };
  auto first = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if ((*entry)->request.priority != priority) continue;
    if (first == entries_.end() || before(waiting(**entry), waiting(**first))) first = entry;
  }
  return first;
}

std::optional<Waiting> RequestQueue::first(Priority priority, Before before) const {
  if (size() == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto entry = find_first(priority, before);
  if (entry == entries_.end()) return std::nullopt;
  return Waiting{(*entry)->party, (*entry)->deadline_ns};
}

std::unique_ptr<Submission> RequestQueue::take_out(Entries::const_iterator entry) {
  const auto at = entries_.begin() + (entry - entries_.cbegin());
  std::unique_ptr<Submission> taken = std::move(*at);
  entries_.erase(at);
  --size_;
  return taken;
}

std::unique_ptr<Submission> RequestQueue::pop(Priority priority, Before before) {
  const std::lock_guard lock(mutex_);
  const auto entry = find_first(priority, before);
  return entry == entries_.end() ? nullptr : take_out(entry);
}

std::unique_ptr<Submission> RequestQueue::pop_any() {
  const std::lock_guard lock(mutex_);
  return entries_.empty() ? nullptr : take_out(entries_.begin());
}

std::vector<std::unique_ptr<Submission>> RequestQueue::take(FunctionRef<bool(const Submission&)> select) {
  std::vector<std::unique_ptr<Submission>> taken;
  if (size() == 0) return taken;
  const std::lock_guard lock(mutex_);
  const auto rest = std::stable_partition(entries_.begin(), entries_.end(),
                                          [&](const std::unique_ptr<Submission>& entry) { return !select(*entry); });
  taken.reserve(static_cast<size_t>(entries_.end() - rest));
  std::move(rest, entries_.end(), std::back_inserter(taken));
  entries_.erase(rest, entries_.end());
  size_ -= static_cast<int32_t>(taken.size());
  return taken;
}

void RequestQueue::visit(Priority priority, FunctionRef<void(const Submission&)> see) const {
  if (size() == 0) return;
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->request.priority == priority) see(*entry);
  }
}

const Error& displaced_error() {
  static const Error error{
      Code::kQueueFull, "others wait for the place in the queue of this client's newest request; try again later", {}};
  return error;
}

Events end_in_queue(const Submission& submission, FinishReason reason, Error error) {
  Events events;
  events.finished = true;
  events.finish.reason = reason;
  events.finish.usage.prompt_tokens = static_cast<int32_t>(submission.request.prompt.size());
  events.finish.error = std::move(error);
  return events;
}

}  // namespace cairn::engine
