// Who comes in, who goes before its end, and what the prefix cache has for newcomers.
#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "engine/engine_core.h"
#include "engine/request_validation.h"

namespace cairn {
namespace {

/// One class may pass a request of the other that waits for memory so many times; then it must wait as well.
constexpr int32_t kBypassMax = 16;
/// Of the running sequences batch requests may be so many fourths, so that an interactive one finds a place.
constexpr int32_t kBatchFourths = 3;

/// To its first token, for a request that names no target, besides the time that its prompt takes.
constexpr std::chrono::nanoseconds kTargetTtft[kPriorities] = {std::chrono::seconds(1), std::chrono::seconds(30)};
/// A prompt alone takes its rows' time once; beside others it is expected to take twice as long.
constexpr double kPromptTimeFactor = 2;

}  // namespace

Result<void> EngineCore::submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel) {
  CAIRN_TRY(std::unique_ptr<Submission> submission, check_request(std::move(request), request_limits_));
  const GenerateRequest& checked = submission->request;
  submission->party = party_of(checked.client, checked.tenant);
  CAIRN_TRY(submission->ticket, tenants_.admit(checked.client, checked.tenant));
  submission->arrival_ns = clock_.now().count();
  submission->deadline_ns = first_token_deadline(checked, submission->arrival_ns);
  submission->channel = std::move(channel);
  CAIRN_TRY(const std::unique_ptr<Submission> displaced, queue_.push(std::move(submission)));
  ++counters_.total_requests;
  if (displaced == nullptr) return {};
  displaced->ticket = TenantTicket();
  unnotified_.publish(displaced->channel, end_in_queue(*displaced, FinishReason::kError, copy_of(displaced_error())));
  return {};
}

int64_t EngineCore::first_token_deadline(const GenerateRequest& request, int64_t arrival_ns) const {
  if (request.target_ttft.count() > 0) return arrival_ns + std::chrono::nanoseconds(request.target_ttft).count();
  const double prompt_ns = prompt_row_ns_.load(std::memory_order_relaxed) * static_cast<double>(request.prompt.size());
  return arrival_ns + kTargetTtft[static_cast<size_t>(request.priority)].count() +
         static_cast<int64_t>(kPromptTimeFactor * prompt_ns);
}

void EngineCore::drop_cancelled() {
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (!sequence->channel().cancelled()) continue;
    ++counters_.cancelled_requests;
    finish(sequence, sequence->end(FinishReason::kCancelled, {}));
  }
  std::erase(running_, nullptr);
  for (std::unique_ptr<Sequence>& sequence : pending_) {
    if (!sequence->channel().cancelled()) continue;
    ++counters_.cancelled_requests;
    finish_pending(std::move(sequence), FinishReason::kCancelled, {});
  }
  std::erase(pending_, nullptr);
  for (const auto& submission : queue_.take([](const Submission& s) { return s.channel->cancelled(); })) {
    ++counters_.cancelled_requests;
    submission->ticket = TenantTicket();
    unnotified_.publish(submission->channel, end_in_queue(*submission, FinishReason::kCancelled, {}));
  }
}

// The end of a sequence that holds no pages.
void EngineCore::finish_pending(std::unique_ptr<Sequence> sequence, FinishReason reason, Error error) {
  if (drafter_ != nullptr) drafter_->forget(sequence->id());
  --counters_.pending;
  sequence->publish(sequence->end(reason, std::move(error)), unnotified_);
}

// What is not read for too long gives its pages back, and ends when too many others wait to be read.
void EngineCore::preempt_stalled(int64_t now_ns) {
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->stalled_for(now_ns) > kStallMax) preempt(sequence, PreemptReason::kUnread);
  }
  std::erase(running_, nullptr);
  size_t unread = 0;
  for (const std::unique_ptr<Sequence>& sequence : pending_) {
    sequence->rejoin(now_ns);
    unread += sequence->waits_for_client() ? 1 : 0;
  }
  for (auto sequence = pending_.begin(); sequence != pending_.end() && unread > unread_max_; ++sequence) {
    if (!(*sequence)->waits_for_client()) continue;
    finish_pending(std::move(*sequence), FinishReason::kError, copy_of(unread_));
    --unread;
  }
  std::erase(pending_, nullptr);
}

void EngineCore::admit() {
  for (;;) {
    const std::array<bool, kPriorities> waiting = {may_admit(Priority::kInteractive), may_admit(Priority::kBatch)};
    if (!waiting[0] && !waiting[1]) return;
    if (!next_class_ || !waiting[static_cast<size_t>(*next_class_)]) {
      next_class_ = scheduler_.admit_next(waiting);
      bypassed_ = 0;
    }
    if (admit_one(*next_class_)) {
      next_class_.reset();
      continue;
    }
    // What waits for memory may be passed by the other class, within bounds.
    const Priority other = *next_class_ == Priority::kBatch ? Priority::kInteractive : Priority::kBatch;
    if (!waiting[static_cast<size_t>(other)] || bypassed_ >= kBypassMax || !admit_one(other)) return;
    ++bypassed_;
  }
}

// Whether one of the class waits, and has a place or may take somebody's.
bool EngineCore::may_admit(Priority priority) {
  const std::optional<Waiting> first = first_waiting(priority);
  return first && (has_slot(priority) || find_yielding(first->party, priority) != nullptr);
}

bool EngineCore::batch_is_full() const {
  const auto batch = std::ranges::count(running_, Priority::kBatch, [](const auto& s) { return s->priority(); });
  return batch >= std::max(1, sequences_max_ * kBatchFourths / 4);
}

bool EngineCore::has_slot(Priority priority) const {
  const bool full = running_.size() >= static_cast<size_t>(sequences_max_);
  return !full && !(priority == Priority::kBatch && batch_is_full());
}

void EngineCore::count_slots(Priority priority) {
  Holdings& places = slots_[static_cast<size_t>(priority)];
  places.clear();
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence != nullptr && sequence->priority() == priority) places.add(sequence->party(), 1);
  }
}

void EngineCore::begin_choice(Priority priority) {
  count_slots(priority);
  must_be_yielded_ = !has_slot(priority) && find_unread(priority) == nullptr;
}

// Of two of a class, after begin_choice. Where a place must be yielded, those come first to whom somebody does.
bool EngineCore::waits_before(const Waiting& a, const Waiting& b, Priority priority) const {
  const Holdings& places = slots_[static_cast<size_t>(priority)];
  if (must_be_yielded_) {
    const bool to_a = places.somebody_yields(a.party);
    if (to_a != places.somebody_yields(b.party)) return to_a;
  }
  const Held of_a = places.of(a.party);
  const Held of_b = places.of(b.party);
  return of_a != of_b ? of_a < of_b : a.deadline_ns < b.deadline_ns;
}

// Of those that were put back or had no memory, after begin_choice.
std::unique_ptr<Sequence>* EngineCore::first_pending(Priority priority) {
  const auto waiting = [](const Sequence& sequence) { return Waiting{sequence.party(), sequence.deadline_ns()}; };
  std::unique_ptr<Sequence>* first = nullptr;
  for (std::unique_ptr<Sequence>& sequence : pending_) {
    if (sequence->priority() != priority || sequence->waits_for_client()) continue;
    if (first == nullptr || waits_before(waiting(*sequence), waiting(**first), priority)) first = &sequence;
  }
  return first;
}

std::optional<Waiting> EngineCore::first_waiting(Priority priority) {
  begin_choice(priority);
  const auto before = [=, this](const Waiting& a, const Waiting& b) { return waits_before(a, b, priority); };
  const std::optional<Waiting> queued = queue_.first(priority, before);
  const std::unique_ptr<Sequence>* preempted = first_pending(priority);
  if (preempted == nullptr) return queued;
  const Waiting again{(*preempted)->party(), (*preempted)->deadline_ns()};
  return queued && before(*queued, again) ? queued : again;
}

// The first of what was put back and what is in the queue. Counted as pending until it runs.
std::unique_ptr<Sequence> EngineCore::take_candidate(Priority priority) {
  begin_choice(priority);
  const auto before = [=, this](const Waiting& a, const Waiting& b) { return waits_before(a, b, priority); };
  const std::optional<Waiting> queued = queue_.first(priority, before);
  std::unique_ptr<Sequence>* preempted = first_pending(priority);
  if (preempted != nullptr && (!queued || !before(*queued, {(*preempted)->party(), (*preempted)->deadline_ns()}))) {
    std::unique_ptr<Sequence> candidate = std::move(*preempted);
    pending_.erase(pending_.begin() + (preempted - pending_.data()));
    return candidate;
  }
  if (!queued) return nullptr;
  pending_.reserve(pending_.size() + running_.size() + 1);  // so that putting back cannot fail
  ++counters_.pending;                                      // before it stops waiting in the queue: see stats
  const std::unique_ptr<Submission> submission = queue_.pop(priority, before);
  if (submission == nullptr) {  // another took its place in the queue
    --counters_.pending;
    return nullptr;
  }
  failure_scope_ = FailureScope::kAdmission;
  admitting_ = submission->channel;
  auto candidate = std::make_unique<Sequence>(SequenceId{next_id_++}, std::move(*submission), tokenizer_, vocabulary_,
                                              pool_.layout().groups.size(), drafts_max_, scratch_);
  failure_scope_ = FailureScope::kNothing;
  admitting_.reset();
  return candidate;
}

bool EngineCore::admit_one(Priority priority) {
  std::unique_ptr<Sequence> candidate = take_candidate(priority);
  if (candidate == nullptr) return false;
  bool placed = free_slot(*candidate) && try_admit_kv(*candidate);
  while (!placed && make_room(*candidate)) placed = try_admit_kv(*candidate);
  if (!placed) {
    if (running_.empty()) {
      // The limits checked at submit leave room for any sequence alone.
      log_error("a request does not fit into the empty cache");
      finish_pending(std::move(candidate), FinishReason::kError, copy_of(does_not_fit_));
      return true;
    }
    pending_.push_back(std::move(candidate));
    return false;
  }
  start(std::move(candidate));
  return true;
}

void EngineCore::start(std::unique_ptr<Sequence> sequence) {
  sequence->admitted(clock_.now().count());
  ++counters_.active;
  --counters_.pending;
  running_.push_back(std::move(sequence));
}

// Where nobody else is, those go on whose clients do not read, until they are stalled.
void EngineCore::admit_unread() {
  if (queue_.size() > 0) return;
  if (!std::ranges::all_of(pending_, [](const auto& sequence) { return sequence->waits_for_client(); })) return;
  if (!std::ranges::all_of(running_, [](const auto& sequence) { return sequence->channel().unread(); })) return;
  for (std::unique_ptr<Sequence>& sequence : pending_) {
    if (sequence->channel().stalled() || !has_slot(sequence->priority())) continue;
    if (!try_admit_kv(*sequence)) break;
    start(std::move(sequence));
  }
  std::erase(pending_, nullptr);
}

// One that nobody reads and that has a place which one of the class may have; null: there is none.
std::unique_ptr<Sequence>* EngineCore::find_unread(Priority priority) {
  const bool batch_only = priority == Priority::kBatch && batch_is_full();
  const auto found = std::ranges::find_if(running_, [=](const std::unique_ptr<Sequence>& sequence) {
    return sequence->channel().unread() && (!batch_only || sequence->priority() == Priority::kBatch);
  });
  return found == running_.end() ? nullptr : &*found;
}

// The latest of those who have most in the class, if that is so much more than `party` has that they yield; or null.
std::unique_ptr<Sequence>* EngineCore::find_over_share(const Party& party, Priority priority) {
  count_slots(priority);
  const Holdings& places = slots_[static_cast<size_t>(priority)];
  std::unique_ptr<Sequence>* latest = nullptr;
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->priority() != priority || !places.yields(sequence->party(), party)) continue;
    const Held held = places.of(sequence->party());
    const Held most = latest == nullptr ? Held{} : places.of((*latest)->party());
    if (latest == nullptr || held > most || (held == most && (*latest)->is_due_before(*sequence))) latest = &sequence;
  }
  return latest;
}

std::unique_ptr<Sequence>* EngineCore::find_yielding(const Party& party, Priority priority) {
  std::unique_ptr<Sequence>* nobody_reads = find_unread(priority);
  return nobody_reads != nullptr ? nobody_reads : find_over_share(party, priority);
}

bool EngineCore::free_slot(const Sequence& candidate) {
  if (has_slot(candidate.priority())) return true;
  std::unique_ptr<Sequence>* yields = find_yielding(candidate.party(), candidate.priority());
  if (yields == nullptr) return false;
  preempt(*yields, (*yields)->channel().unread() ? PreemptReason::kUnread : PreemptReason::kShare);
  std::erase(running_, nullptr);
  return true;
}

// Puts one back whose pages the candidate may have; false if there is none.
bool EngineCore::make_room(const Sequence& candidate) {
  if (!has_slot(candidate.priority())) return false;
  if (std::unique_ptr<Sequence>* nobody_reads = find_unread(candidate.priority())) {
    preempt(*nobody_reads, PreemptReason::kUnread);
  } else if (candidate.priority() == Priority::kInteractive && preempt_batch()) {
    return true;
  } else if (std::unique_ptr<Sequence>* more = find_over_share(candidate.party(), candidate.priority())) {
    preempt(*more, PreemptReason::kShare);
  } else {
    return false;
  }
  std::erase(running_, nullptr);
  return true;
}

// What the tokens that are known will take of the group, besides the pages that the sequence has.
int32_t EngineCore::pages_to_come(const Sequence& sequence, int32_t group) const {
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  const PageTable& table = sequence.memory().table;
  const auto have =
      std::ranges::count_if(table.groups[static_cast<size_t>(group)], [](PageId page) { return page != kNoPage; });
  const int32_t at_once =
      pages_needed(pool_.layout().groups[static_cast<size_t>(group)], tokens, limits_.prefill_chunk_max);
  return std::min(pool_.missing(table, group, tokens), std::max(0, at_once - static_cast<int32_t>(have)));
}

// Takes what the cache has of the sequence, and sees whether the rest would find pages.
bool EngineCore::try_admit_kv(Sequence& sequence) {
  SequenceMemory& memory = sequence.memory();
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  PrefixHit hit;
  if (uses_prefix_cache(sequence))
    hit = prefix_cache_.resume(memory.cursor, sequence.tokens(), tokens - 1, memory.table);
  const auto headroom = static_cast<int32_t>(running_.size());  // the others grow by a page now and then
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const bool grows = pool_.layout().groups[static_cast<size_t>(group)].kind != KvKind::kState;
    const int32_t needed = pages_to_come(sequence, group);
    int32_t promised = grows ? headroom : 0;
    for (const std::unique_ptr<Sequence>& other : running_) promised += pages_to_come(*other, group);
    if (needed + promised <= pool_.pages_free(group) + prefix_cache_.pages_evictable(group)) continue;
    // Without the copy of a partial page, if there is one, and the states at its end.
    if (hit.tokens != memory.cursor.tokens) drop_states(memory);
    prefix_cache_.leave(memory.cursor, sequence.tokens(), memory.cursor.tokens, memory.table);
    memory.cursor = PrefixCache::root(sequence.salt());
    return false;
  }
  memory.computed = hit.tokens;
  counters_.cached_tokens += hit.tokens;
  sequence.found_in_cache(hit.tokens);
  if (!sequence.was_admitted()) report_prefix(sequence, hit);
  return true;
}

// An interactive request may take the pages of a batch one, unless that has waited past its deadline.
bool EngineCore::preempt_batch() {
  const int64_t now_ns = clock_.now().count();
  std::unique_ptr<Sequence>* victim = nullptr;
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->priority() != Priority::kBatch || sequence->deadline_ns() < now_ns) continue;
    if (victim == nullptr || sequence->memory().computed < (*victim)->memory().computed) victim = &sequence;
  }
  if (victim == nullptr) return false;
  preempt(*victim, PreemptReason::kPages);
  std::erase(running_, nullptr);
  return true;
}

// Only a report: without memory for it there is none.
void EngineCore::report_prefix(const Sequence& sequence, const PrefixHit& hit) noexcept try {
  PrefixReport report;
  report.id = sequence.request_id();
  report.prompt_tokens = sequence.prompt_tokens();
  report.cached_tokens = hit.tokens;
  report.mismatch_position = hit.mismatch_position;
  report.mismatch_token = hit.mismatch_token;
  if (hit.mismatch_position >= 0) {
    const std::span<const TokenId> tokens = sequence.tokens();
    const auto begin = static_cast<size_t>(std::max(0, hit.mismatch_position - kReportTokensAround));
    const size_t end = std::min(tokens.size(), static_cast<size_t>(hit.mismatch_position + kReportTokensAround + 1));
    report.prompt_around.assign(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                tokens.begin() + static_cast<ptrdiff_t>(end));
    log_debug("{}: {} of {} prompt tokens were cached; at {} the prompt has token {}, the cache {}", report.id,
              hit.tokens, report.prompt_tokens, hit.mismatch_position,
              index(tokens[static_cast<size_t>(hit.mismatch_position)]), index(hit.mismatch_token));
  }
  const std::lock_guard lock(reports_mutex_);
  if (reports_.size() < kPrefixReportsMax) {
    reports_.emplace_back(sequence.party(), std::move(report));
  } else {
    reports_[next_report_++ % kPrefixReportsMax] = {sequence.party(), std::move(report)};
  }
} catch (const std::bad_alloc&) {
  log_debug("no memory for a prefix report");
}

Result<PrefixReport> EngineCore::prefix_report(std::string_view id, const Party& asker) const {
  const std::lock_guard lock(reports_mutex_);
  for (const auto& [party, report] : reports_) {
    const bool own = party.tenant == asker.tenant && (party.tenant != kNoTenant || party.client == asker.client);
    if (own && report.id == id) return report;
  }
  return fail_at("request", Code::kNotFound, "there is no request \"{}\" among the last {} that were admitted", id,
                 kPrefixReportsMax);
}

void EngineCore::end_all() noexcept {
  for (std::unique_ptr<Sequence>& sequence : running_) finish(sequence, sequence->end(FinishReason::kCancelled, {}));
  running_.clear();
  for (std::unique_ptr<Sequence>& sequence : pending_)
    finish_pending(std::move(sequence), FinishReason::kCancelled, {});
  pending_.clear();
  while (const std::unique_ptr<Submission> submission = queue_.pop_any()) {
    submission->ticket = TenantTicket();
    unnotified_.publish(submission->channel, end_in_queue(*submission, FinishReason::kCancelled, {}));
  }
}

}  // namespace cairn
