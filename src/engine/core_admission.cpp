// Who comes in, who goes before its end, and what the prefix index has for newcomers.
#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "engine/admission.h"
#include "engine/core.h"

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

Events cancelled_before_start(const Submission& submission) {
  Events events;
  events.finished = true;
  events.finish.reason = FinishReason::kCancelled;
  events.finish.usage.prompt_tokens = static_cast<int32_t>(submission.request.prompt.size());
  return events;
}

}  // namespace

Result<void> Core::submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel) {
  CAIRN_TRY(std::unique_ptr<Submission> submission, check_request(std::move(request), request_limits_));
  CAIRN_TRY(submission->ticket, tenants_.admit(submission->request.tenant));
  submission->arrival_ns = clock_.now().count();
  submission->deadline_ns = first_token_deadline(submission->request, submission->arrival_ns);
  submission->channel = std::move(channel);
  CAIRN_TRY_VOID(queue_.push(std::move(submission)));
  ++counters_.total_requests;
  return {};
}

int64_t Core::first_token_deadline(const GenerateRequest& request, int64_t arrival_ns) const {
  if (request.target_ttft.count() > 0) return arrival_ns + std::chrono::nanoseconds(request.target_ttft).count();
  const double prompt_ns = prompt_row_ns_.load(std::memory_order_relaxed) * static_cast<double>(request.prompt.size());
  return arrival_ns + kTargetTtft[static_cast<size_t>(request.priority)].count() +
         static_cast<int64_t>(kPromptTimeFactor * prompt_ns);
}

void Core::drop_cancelled() {
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (!sequence->channel().cancelled()) continue;
    ++counters_.cancelled_requests;
    retire(sequence, sequence->end(FinishReason::kCancelled, {}));
  }
  std::erase(running_, nullptr);
  for (std::unique_ptr<Sequence>& sequence : ready_) {
    if (!sequence->channel().cancelled()) continue;
    ++counters_.cancelled_requests;
    dismiss(std::move(sequence), FinishReason::kCancelled, {});
  }
  std::erase(ready_, nullptr);
  for (const auto& submission : queue_.take([](const Submission& s) { return s.channel->cancelled(); })) {
    ++counters_.cancelled_requests;
    submission->ticket = TenantTicket();
    submission->channel->publish(cancelled_before_start(*submission));
  }
}

// The end of a sequence that holds no pages.
void Core::dismiss(std::unique_ptr<Sequence> sequence, FinishReason reason, Error error) {
  if (drafter_ != nullptr) drafter_->forget(sequence->id());
  --counters_.ready;
  sequence->publish(sequence->end(reason, std::move(error)));
}

void Core::drop_stalled(int64_t now_ns) {
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->stalled_for(now_ns) > kStallMax) preempt(sequence);
  }
  std::erase(running_, nullptr);
}

bool Core::wants(Priority priority) {
  if (queue_.first_deadline(priority).has_value()) return true;
  return std::ranges::any_of(ready_, [&](const std::unique_ptr<Sequence>& sequence) {
    return sequence->priority() == priority && !sequence->channel().stalled();
  });
}

void Core::admit() {
  const int32_t batch_max = std::max(1, running_max_ * kBatchFourths / 4);
  while (running_.size() < static_cast<size_t>(running_max_)) {
    const auto batch_running = std::ranges::count_if(
        running_, [](const std::unique_ptr<Sequence>& s) { return s->priority() == Priority::kBatch; });
    const std::array<bool, kPriorities> waiting = {wants(Priority::kInteractive),
                                                   batch_running < batch_max && wants(Priority::kBatch)};
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

// The earliest deadline of what was put back and what is in the queue. Counted as ready until it runs.
std::unique_ptr<Sequence> Core::take_candidate(Priority priority) {
  auto best = ready_.end();
  for (auto sequence = ready_.begin(); sequence != ready_.end(); ++sequence) {
    if ((*sequence)->priority() != priority || (*sequence)->channel().stalled()) continue;
    if (best == ready_.end() || (*sequence)->before(**best)) best = sequence;
  }
  const std::optional<int64_t> queued = queue_.first_deadline(priority);
  if (best != ready_.end() && (!queued || (*best)->deadline_ns() <= *queued)) {
    std::unique_ptr<Sequence> candidate = std::move(*best);
    ready_.erase(best);
    return candidate;
  }
  if (!queued) return nullptr;
  ++counters_.ready;  // before it stops waiting in the queue: see stats
  const std::unique_ptr<Submission> submission = queue_.pop(priority);
  at_stake_ = AtStake::kAdmission;
  admitting_ = submission->channel;
  ready_.reserve(ready_.size() + 1);
  auto candidate = std::make_unique<Sequence>(SequenceId{next_id_++}, std::move(*submission), tokenizer_, vocabulary_,
                                              pool_.layout().groups.size(), drafts_max_, scratch_);
  at_stake_ = AtStake::kNothing;
  admitting_.reset();
  return candidate;
}

bool Core::admit_one(Priority priority) {
  std::unique_ptr<Sequence> candidate = take_candidate(priority);
  if (candidate == nullptr) return false;
  bool placed = place(*candidate);
  while (!placed && priority == Priority::kInteractive && preempt_batch()) placed = place(*candidate);
  if (!placed) {
    if (running_.empty()) {
      // The limits checked at submit leave room for any sequence alone.
      log_error("a request does not fit into the empty cache");
      dismiss(std::move(candidate), FinishReason::kError, Error{Code::kTooLarge, "the request does not fit", {}});
      return true;
    }
    ready_.push_back(std::move(candidate));
    return false;
  }
  candidate->admitted(clock_.now().count());
  ++counters_.active;
  --counters_.ready;
  running_.push_back(std::move(candidate));
  return true;
}

// What the tokens that are known will take of the group, besides the pages that the sequence has.
int32_t Core::pages_to_come(const Sequence& sequence, int32_t group) const {
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  const PageTable& table = sequence.memory().table;
  const auto have =
      std::ranges::count_if(table.groups[static_cast<size_t>(group)], [](PageId page) { return page != kNoPage; });
  const int32_t at_once =
      pages_needed(pool_.layout().groups[static_cast<size_t>(group)], tokens, limits_.chunk_rows_max);
  return std::min(pool_.missing(table, group, tokens), std::max(0, at_once - static_cast<int32_t>(have)));
}

// Takes what the index has of the sequence, and sees whether the rest would find pages.
bool Core::place(Sequence& sequence) {
  SequenceMemory& memory = sequence.memory();
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  PrefixHit hit;
  if (uses_index(sequence)) hit = index_.resume(memory.cursor, sequence.tokens(), tokens - 1, memory.table);
  const auto headroom = static_cast<int32_t>(running_.size());  // the others grow by a page now and then
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const bool grows = pool_.layout().groups[static_cast<size_t>(group)].kind != KvKind::kState;
    const int32_t needed = pages_to_come(sequence, group);
    int32_t promised = grows ? headroom : 0;
    for (const std::unique_ptr<Sequence>& other : running_) promised += pages_to_come(*other, group);
    if (needed + promised <= pool_.pages_free(group) + index_.pages_evictable(group)) continue;
    // Without the copy of a partial page, if there is one, and the states at its end.
    if (hit.tokens != memory.cursor.tokens) drop_states(memory);
    index_.leave(memory.cursor, sequence.tokens(), memory.cursor.tokens, memory.table);
    memory.cursor = PrefixIndex::root(sequence.salt());
    return false;
  }
  memory.computed = hit.tokens;
  counters_.cached_tokens += hit.tokens;
  sequence.found_in_cache(hit.tokens);
  if (!sequence.was_admitted()) report_prefix(sequence, hit);
  return true;
}

// An interactive request may take the pages of a batch one, unless that has waited past its deadline.
bool Core::preempt_batch() {
  const int64_t now_ns = clock_.now().count();
  std::unique_ptr<Sequence>* victim = nullptr;
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->priority() != Priority::kBatch || sequence->deadline_ns() < now_ns) continue;
    if (victim == nullptr || sequence->memory().computed < (*victim)->memory().computed) victim = &sequence;
  }
  if (victim == nullptr) return false;
  preempt(*victim);
  std::erase(running_, nullptr);
  return true;
}

// Only a report: without memory for it there is none.
void Core::report_prefix(const Sequence& sequence, const PrefixHit& hit) noexcept try {
  PrefixReport report;
  report.id = sequence.request_id();
  report.prompt_tokens = sequence.prompt_tokens();
  report.cached_tokens = hit.tokens;
  report.differs_at = hit.differs_at;
  report.cached = hit.cached;
  if (hit.differs_at >= 0) {
    const std::span<const TokenId> tokens = sequence.tokens();
    const auto begin = static_cast<size_t>(std::max(0, hit.differs_at - kReportTokensAround));
    const size_t end = std::min(tokens.size(), static_cast<size_t>(hit.differs_at + kReportTokensAround + 1));
    report.prompt_around.assign(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                tokens.begin() + static_cast<ptrdiff_t>(end));
    log_debug("{}: {} of {} prompt tokens were cached; at {} the prompt has token {}, the cache {}", report.id,
              hit.tokens, report.prompt_tokens, hit.differs_at, index(tokens[static_cast<size_t>(hit.differs_at)]),
              index(hit.cached));
  }
  const std::lock_guard lock(reports_mutex_);
  if (reports_.size() < kPrefixReportsMax) {
    reports_.push_back(std::move(report));
  } else {
    reports_[next_report_++ % kPrefixReportsMax] = std::move(report);
  }
} catch (const std::bad_alloc&) {
  log_debug("no memory for a prefix report");
}

Result<PrefixReport> Core::prefix_report(std::string_view id) const {
  const std::lock_guard lock(reports_mutex_);
  const auto report = std::ranges::find(reports_, id, &PrefixReport::id);
  if (report != reports_.end()) return *report;
  return fail_at("request", Code::kNotFound, "there is no request \"{}\" among the last {} that were admitted", id,
                 kPrefixReportsMax);
}

void Core::end_all() {
  for (std::unique_ptr<Sequence>& sequence : running_) retire(sequence, sequence->end(FinishReason::kCancelled, {}));
  running_.clear();
  for (std::unique_ptr<Sequence>& sequence : ready_) dismiss(std::move(sequence), FinishReason::kCancelled, {});
  ready_.clear();
  for (const auto& submission : queue_.take([](const Submission&) { return true; })) {
    submission->channel->publish(cancelled_before_start(*submission));
  }
}

}  // namespace cairn
