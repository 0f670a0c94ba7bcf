#include "engine/stages/admission.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "engine/failures.h"

namespace cairn::engine {
namespace {

/// How many requests of the other class may be admitted before a request that waits for memory; then the other class
/// waits as well.
constexpr int32_t kBypassMax = 16;

/// Target for the time to first token of a request that names none, besides the time that its prompt takes.
constexpr std::chrono::nanoseconds kTargetTtft[kPriorities] = {std::chrono::seconds(1), std::chrono::seconds(30)};
/// A prompt alone takes its rows' time once; beside others it is expected to take twice as long.
constexpr double kPromptTimeFactor = 2;

Waiting waiting_of(const Sequence& sequence) { return {sequence.party(), sequence.order().deadline_ns()}; }

}  // namespace

// The order of two waiting requests of a class. Where a slot is free only if a running sequence yields it, requests for
// which one yields come first.
class Admission::Order {
 public:
  Order(const Holdings& slots, bool must_be_yielded) : slots_(slots), must_be_yielded_(must_be_yielded) {}

  bool operator()(const Waiting& a, const Waiting& b) const {
    if (must_be_yielded_) {
      const bool to_a = slots_.somebody_yields(a.party);
      if (to_a != slots_.somebody_yields(b.party)) return to_a;
    }
    const Held of_a = slots_.of(a.party);
    const Held of_b = slots_.of(b.party);
    return of_a != of_b ? of_a < of_b : a.deadline_ns < b.deadline_ns;
  }

 private:
  const Holdings& slots_;  // slots that each party has in the class
  const bool must_be_yielded_;
};

Admission::Admission(const model::Runner& runner, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
                     int32_t sequences_max, int32_t drafts_max, KvManager& kv, Emitter& emitter,
                     EngineCounters& counters, const Clock& clock)
    : tokenizer_(tokenizer),
      clock_(clock),
      kv_(kv),
      emitter_(emitter),
      counters_(counters),
      limits_{static_cast<int32_t>(runner.vocabulary()), runner.context_tokens(), runner.embedding(),
              pool_tokens_of(kv.pool()), &tokenizer},
      adapters_(options.adapter_scales),
      drafts_max_(drafts_max),
      unread_max_(static_cast<size_t>(options.queue_max)),
      tenants_(options.tenant_requests_max),
      queue_(options.queue_max),
      policy_(sequences_max) {
  scratch_.reserve(limits_.vocabulary);
}

Result<void> Admission::submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel) {
  CAIRN_TRY(std::vector<float> scales, adapters_.of(request.adapters));
  CAIRN_TRY(std::unique_ptr<Submission> submission, check_request(std::move(request), limits_));
  // A slot action has the salt of a conversation's pages already.
  uint64_t& salt = submission->request.salt;
  if (submission->request.slot_action == SlotAction::kNone) salt = salt_with(scales, salt);
  submission->adapter_scales = std::move(scales);
  const GenerateRequest& checked = submission->request;
  submission->party = party_of(checked.client, checked.tenant);
  CAIRN_TRY(submission->ticket, tenants_.admit(checked.client, checked.tenant));
  submission->arrival_ns = clock_.now().count();
  submission->deadline_ns = first_token_deadline(checked, submission->arrival_ns);
  submission->channel = std::move(channel);
  CAIRN_TRY(const std::unique_ptr<Submission> displaced, queue_.push(std::move(submission)));
  ++counters_.total_requests;
  if (displaced != nullptr) emitter_.finish_queued(*displaced, FinishReason::kError, copy_of(displaced_error()));
  return {};
}

int64_t Admission::first_token_deadline(const GenerateRequest& request, int64_t arrival_ns) const {
  if (request.target_ttft.count() > 0) return arrival_ns + std::chrono::nanoseconds(request.target_ttft).count();
  const double prompt_ns =
      prompt_token_ns_.load(std::memory_order_relaxed) * static_cast<double>(request.prompt.size());
  return arrival_ns + kTargetTtft[static_cast<size_t>(request.priority)].count() +
         static_cast<int64_t>(kPromptTimeFactor * prompt_ns);
}

void Admission::admit(int64_t now_ns, Sequences& running) {
  reserve_pending(running);
  drop_cancelled(running);
  preempt_stalled(now_ns, running);
  admit_waiting(running);
  admit_unread(running);
  end_slot_actions(running);
  reserve_pending(running);
}

// Ends those that were admitted for their pages alone, once these are where they should be.
void Admission::end_slot_actions(Sequences& running) {
  for (std::unique_ptr<Sequence>& sequence : running) {
    if (sequence->caching().slot_action() == SlotAction::kNone || !kv_.is_done(*sequence)) continue;
    emitter_.finish(sequence, sequence->end(FinishReason::kLength, {}));
  }
  std::erase(running, nullptr);
}

void Admission::drop_cancelled(Sequences& running) {
  for (std::unique_ptr<Sequence>& sequence : running) {
    if (!sequence->channel().cancelled()) continue;
    ++counters_.cancelled_requests;
    emitter_.finish(sequence, sequence->end(FinishReason::kCancelled, {}));
  }
  std::erase(running, nullptr);
  for (std::unique_ptr<Sequence>& sequence : pending_) {
    if (!sequence->channel().cancelled()) continue;
    ++counters_.cancelled_requests;
    emitter_.finish_pending(std::move(sequence), FinishReason::kCancelled, {});
  }
  std::erase(pending_, nullptr);
  for (const auto& submission : queue_.take([](const Submission& s) { return s.channel->cancelled(); })) {
    ++counters_.cancelled_requests;
    emitter_.finish_queued(*submission, FinishReason::kCancelled, {});
  }
}

// Preempts sequences whose clients have read nothing for kStallMax, and ends those that have waited longest when too
// many wait to be read.
void Admission::preempt_stalled(int64_t now_ns, Sequences& running) {
  for (std::unique_ptr<Sequence>& sequence : running) {
    if (sequence->order().stalled_for(now_ns) > kStallMax) preempt(sequence, PreemptReason::kUnread);
  }
  std::erase(running, nullptr);
  size_t unread = 0;
  for (const std::unique_ptr<Sequence>& sequence : pending_) {
    sequence->order().rejoin(now_ns);
    unread += sequence->order().waits_for_client() ? 1 : 0;
  }
  for (auto sequence = pending_.begin(); sequence != pending_.end() && unread > unread_max_; ++sequence) {
    if (!(*sequence)->order().waits_for_client()) continue;
    emitter_.finish_pending(std::move(*sequence), FinishReason::kError, copy_of(unread_));
    --unread;
  }
  std::erase(pending_, nullptr);
}

void Admission::admit_waiting(Sequences& running) {
  for (;;) {
    const Stride::Classes waiting = {may_admit(Priority::kInteractive, running), may_admit(Priority::kBatch, running)};
    if (!waiting[0] && !waiting[1]) return;
    if (!next_class_ || !waiting[static_cast<size_t>(*next_class_)]) {
      next_class_ = classes_.take_one(waiting);
      bypassed_ = 0;
    }
    if (admit_one(*next_class_, running)) {
      next_class_.reset();
      continue;
    }
    // A request that waits for memory may be passed by the other class, at most kBypassMax times.
    const Priority other = *next_class_ == Priority::kBatch ? Priority::kInteractive : Priority::kBatch;
    if (!waiting[static_cast<size_t>(other)] || bypassed_ >= kBypassMax || !admit_one(other, running)) return;
    ++bypassed_;
  }
}

// Whether a request of the class waits and there is a slot for it, free or yielded by another sequence.
bool Admission::may_admit(Priority priority, Sequences& running) {
  const std::optional<Waiting> first = first_waiting(priority, running);
  return first &&
         (policy_.has_slot(running, priority) || policy_.find_yielding(running, first->party, priority) != nullptr);
}

// The result is valid until `running` changes or count_slots() of the policy is called again.
Admission::Order Admission::order_of(Priority priority, Sequences& running) {
  const Holdings& slots = policy_.count_slots(running, priority);
  return {slots, !policy_.has_slot(running, priority) && policy_.find_unread(running, priority) == nullptr};
}

// The first of the pending sequences of the class: preempted ones, and those that found no memory.
std::unique_ptr<Sequence>* Admission::first_pending(Priority priority, const Order& order) {
  std::unique_ptr<Sequence>* first = nullptr;
  for (std::unique_ptr<Sequence>& sequence : pending_) {
    if (sequence->order().priority() != priority || sequence->order().waits_for_client()) continue;
    if (first == nullptr || order(waiting_of(*sequence), waiting_of(**first))) first = &sequence;
  }
  return first;
}

std::optional<Waiting> Admission::first_waiting(Priority priority, Sequences& running) {
  const Order order = order_of(priority, running);
  const std::optional<Waiting> queued = queue_.first(priority, order);
  const std::unique_ptr<Sequence>* preempted = first_pending(priority, order);
  if (preempted == nullptr) return queued;
  const Waiting again = waiting_of(**preempted);
  return queued && order(*queued, again) ? queued : again;
}

// Takes the first of the pending sequences and of the queue. It counts as pending until it runs.
std::unique_ptr<Sequence> Admission::take_candidate(Priority priority, Sequences& running) {
  const Order order = order_of(priority, running);
  const std::optional<Waiting> queued = queue_.first(priority, order);
  std::unique_ptr<Sequence>* preempted = first_pending(priority, order);
  if (preempted != nullptr && (!queued || !order(*queued, waiting_of(**preempted)))) {
    std::unique_ptr<Sequence> candidate = std::move(*preempted);
    pending_.erase(pending_.begin() + (preempted - pending_.data()));
    return candidate;
  }
  if (!queued) return nullptr;
  reserve_pending(running);  // so that preempting cannot fail
  ++counters_.pending;       // before it stops waiting in the queue: see EngineCounters::stats
  const std::unique_ptr<Submission> submission = queue_.pop(priority, order);
  if (submission == nullptr) {  // another took its place in the queue
    --counters_.pending;
    return nullptr;
  }
  return make_sequence(*submission);
}

// An exception loses this request and no other: it has left the queue, and only this function still holds it.
std::unique_ptr<Sequence> Admission::make_sequence(Submission& submission) {
  const std::shared_ptr<EventChannel> channel = submission.channel;
  try {
    auto sequence =
        std::make_unique<Sequence>(SequenceId{next_id_++}, std::move(submission), tokenizer_, limits_.vocabulary,
                                   kv_.pool().layout().groups.size(), drafts_max_, scratch_, rules_);
    kv_.plan_checkpoints(*sequence, tokenizer_);
    return sequence;
  } catch (const std::exception& exception) {
    --counters_.pending;
    submission.ticket = TenantTicket();
    emitter_.fail(channel, thrown(exception));
    throw;
  }
}

bool Admission::admit_one(Priority priority, Sequences& running) {
  std::unique_ptr<Sequence> candidate = take_candidate(priority, running);
  if (candidate == nullptr) return false;
  bool placed = free_slot(*candidate, running) && kv_.try_admit(*candidate, running);
  while (!placed && make_room(*candidate, running)) placed = kv_.try_admit(*candidate, running);
  if (!placed) {
    if (running.empty()) {
      // The limits checked at submit leave room for any sequence that runs alone.
      log_error("a request does not fit into the empty cache");
      emitter_.finish_pending(std::move(candidate), FinishReason::kError, copy_of(does_not_fit_));
      return true;
    }
    pending_.push_back(std::move(candidate));
    return false;
  }
  start(std::move(candidate), running);
  return true;
}

void Admission::start(std::unique_ptr<Sequence> sequence, Sequences& running) {
  sequence->statistics().admitted(clock_.now().count());
  ++counters_.active;
  --counters_.pending;
  running.push_back(std::move(sequence));
}

// If no other sequence runs or waits, those whose clients do not read go on until they are stalled.
void Admission::admit_unread(Sequences& running) {
  if (queue_.size() > 0) return;
  if (!std::ranges::all_of(pending_, [](const auto& sequence) { return sequence->order().waits_for_client(); })) return;
  if (!std::ranges::all_of(running, [](const auto& sequence) { return sequence->channel().unread(); })) return;
  for (std::unique_ptr<Sequence>& sequence : pending_) {
    if (sequence->channel().stalled() || !policy_.has_slot(running, sequence->order().priority())) continue;
    if (!kv_.try_admit(*sequence, running)) break;
    start(std::move(sequence), running);
  }
  std::erase(pending_, nullptr);
}

bool Admission::free_slot(const Sequence& candidate, Sequences& running) {
  if (policy_.has_slot(running, candidate.order().priority())) return true;
  const PreemptionPolicy::Choice yields =
      policy_.find_yielding(running, candidate.party(), candidate.order().priority());
  if (yields == nullptr) return false;
  preempt(*yields, (*yields)->channel().unread() ? PreemptReason::kUnread : PreemptReason::kShare);
  std::erase(running, nullptr);
  return true;
}

// Preempts a running sequence whose pages the candidate may have; false if there is none.
bool Admission::make_room(const Sequence& candidate, Sequences& running) {
  const Priority priority = candidate.order().priority();
  if (!policy_.has_slot(running, priority)) return false;
  PreemptReason why = PreemptReason::kUnread;
  PreemptionPolicy::Choice yields = policy_.find_unread(running, priority);
  if (yields == nullptr && priority == Priority::kInteractive) {
    why = PreemptReason::kPages;
    yields = PreemptionPolicy::find_batch(running, clock_.now().count());
  }
  if (yields == nullptr) {
    why = PreemptReason::kShare;
    yields = policy_.find_over_share(running, candidate.party(), priority);
  }
  if (yields == nullptr) return false;
  preempt(*yields, why);
  std::erase(running, nullptr);
  return true;
}

void Admission::preempt_for(const Sequence& sequence, Sequences& running) {
  std::unique_ptr<Sequence>& victim = *policy_.find_victim(running, sequence);
  preempt(victim, victim->order().rank() == kUnreadRank ? PreemptReason::kUnread : PreemptReason::kPages);
}

void Admission::preempt(std::unique_ptr<Sequence>& sequence, PreemptReason why) {
  kv_.release(*sequence);
  sequence->order().preempted(why);
  sequence->statistics().preempted();
  ++counters_.preemptions;
  --counters_.active;
  ++counters_.pending;
  pending_.push_back(std::move(sequence));  // has room: see admit()
}

void Admission::end_all() noexcept {
  for (std::unique_ptr<Sequence>& sequence : pending_)
    emitter_.finish_pending(std::move(sequence), FinishReason::kCancelled, {});
  pending_.clear();
  while (const std::unique_ptr<Submission> submission = queue_.pop_any()) {
    emitter_.finish_queued(*submission, FinishReason::kCancelled, {});
  }
}

}  // namespace cairn::engine
