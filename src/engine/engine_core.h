/// The engine without its thread: everything that happens in one iteration, and the state it happens to.
///
/// An iteration: drop what was cancelled, admit while memory lasts, propose drafts, share out the step (Scheduler),
/// give every row its page (preempting the cheapest sequence when there is none), run the step, sample, emit, and tell
/// the prefix cache what is new. Who goes first, and what becomes of those whose clients do not read: see
/// fair_shares.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system/clock.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "engine/engine.h"
#include "engine/engine_counters.h"
#include "engine/failures.h"
#include "engine/request_validation.h"
#include "engine/sample_batch.h"
#include "engine/scheduling/cost_model.h"
#include "engine/scheduling/fair_shares.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/scheduler.h"
#include "engine/scheduling/tenants.h"
#include "engine/sequence.h"
#include "engine/speculation/drafter.h"

namespace cairn {

/// A sequence whose client takes nothing for so long gives its pages back, even if nobody waits for them.
inline constexpr std::chrono::seconds kStallMax{10};
/// The index learns what tokens cost every so many steps.
inline constexpr int64_t kCostUpdateSteps = 64;

class EngineCore {
 public:
  enum class Iteration {
    kIdle,     ///< there is nothing to do until a request comes
    kStalled,  ///< nothing can go on until a client takes its events
    kWorked,
  };

  /// All referred to outlive the core. `drafter` null: no speculation.
  EngineCore(Runner& runner, const Tokenizer& tokenizer, const EngineOptions& options, PagePool&& pool,
             std::unique_ptr<Drafter> drafter, const Clock& clock);

  /// Pages that are given up are kept in `bytes` of host memory. Before the first iteration. Error: kOutOfMemory.
  Result<void> use_host_tier(int64_t bytes);

  // -- From any thread.
  /// Events go to `channel`. Errors: see Engine::submit.
  Result<void> submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel);
  RequestQueue& queue() { return queue_; }
  const PagePool& pool() const { return pool_; }
  int32_t context_tokens() const { return request_limits_.context_tokens; }
  EngineStats stats() const;
  Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const;

  // -- From the engine's thread.
  Iteration iterate();
  /// Finishes everything with kCancelled.
  void end_all() noexcept;
  // For audits between turns: every page in use is in the table of a running sequence or in the cache.
  std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  std::span<const std::unique_ptr<Sequence>> pending() const { return pending_; }
  PrefixCache& prefix_cache() { return prefix_cache_; }

 private:
  // -- admission.cpp
  int64_t first_token_deadline(const GenerateRequest& request, int64_t arrival_ns) const;
  void drop_cancelled();
  void finish_pending(std::unique_ptr<Sequence> sequence, FinishReason reason, Error error);
  void preempt_stalled(int64_t now_ns);
  void admit();
  void admit_unread();
  void start(std::unique_ptr<Sequence> sequence);
  bool admit_one(Priority priority);
  bool may_admit(Priority priority);
  bool batch_is_full() const;
  bool has_slot(Priority priority) const;
  void count_slots(Priority priority);
  bool waits_before(const Waiting& a, const Waiting& b, Priority priority) const;
  void begin_choice(Priority priority);
  std::unique_ptr<Sequence>* first_pending(Priority priority);
  std::optional<Waiting> first_waiting(Priority priority);
  std::unique_ptr<Sequence> take_candidate(Priority priority);
  std::unique_ptr<Sequence>* find_unread(Priority priority);
  std::unique_ptr<Sequence>* find_over_share(const Party& party, Priority priority);
  std::unique_ptr<Sequence>* find_yielding(const Party& party, Priority priority);
  bool free_slot(const Sequence& candidate);
  bool make_room(const Sequence& candidate);
  int32_t pages_to_come(const Sequence& sequence, int32_t group) const;
  bool try_admit_kv(Sequence& sequence);
  bool preempt_batch();
  void report_prefix(const Sequence& sequence, const PrefixHit& hit) noexcept;

  // -- kv_allocation.cpp
  void extend_prefix_hits();
  void defer_duplicate_prefills();
  bool reserve(Sequence& sequence, int32_t tokens);
  int32_t reserve_drafts(Sequence& sequence, int32_t wanted);
  void release_drafts();
  void reserve_pages();
  void rank_running();
  std::unique_ptr<Sequence>* victim_for(const Sequence& sequence);
  bool yields_before(const Sequence& a, const Sequence& b) const;
  void preempt(std::unique_ptr<Sequence>& sequence, PreemptReason why);
  void keep_pages();
  void drop_states(SequenceMemory& memory);
  void release_kv(Sequence& sequence);
  /// Whether the prefix cache has a part in it: it has no hidden rows of what it has.
  bool uses_prefix_cache(const Sequence& sequence) const { return prefix_cache_enabled_ && !sequence.embeds(); }
  void count_pages();

  // -- engine_core.cpp
  void learn_cost(int64_t step_ns);
  int64_t predicted_short_prefill_ns() const;
  void propose();
  void plan(int64_t now_ns);
  void lay_out();
  Result<LogitsView> step();
  Result<void> sample_rows();
  Result<void> emit(const LogitsView& logits, int64_t now_ns);
  void emit_hidden(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share, std::span<const float>& hidden,
                   int64_t now_ns);
  Result<void> emit_one(Sequence& sequence, const ScheduledTokens& share, const LogitsView& logits, int64_t row,
                        Events& events);
  Result<Sampled> choose(Sequence& sequence, const LogitsView& logits, int64_t row);
  void finish(std::unique_ptr<Sequence>& sequence, Events&& events);
  void fail_scope(const Error& error) noexcept;

  // What an exception or a failed step takes with it.
  enum class FailureScope {
    kNothing,
    kAdmission,  // the request of admitting_
    kBatch,      // all sequences of scheduled_
    kSequence,   // running_[failing_sequence_]
  };

  Runner& runner_;
  const Tokenizer& tokenizer_;
  const Clock& clock_;
  PagePool pool_;
  PrefixCache prefix_cache_;
  const std::function<Result<void>()> check_weights_;
  const bool prefix_cache_enabled_;
  const bool has_state_;  // some layers are recurrent
  const int32_t sequences_max_;
  const int32_t vocabulary_;
  const int32_t drafts_max_;
  const StepLimits limits_;
  const AdmissionLimits request_limits_;
  const size_t unread_max_;  // sequences in pending_ whose clients do not read
  const Error does_not_fit_{Code::kTooLarge, "the request does not fit", {}};
  const Error unread_{Code::kQueueFull, "the client does not read its answer, and too many others wait to be read", {}};
  Tenants tenants_;
  RequestQueue queue_;
  UnnotifiedChannels unnotified_;
  Scheduler scheduler_;
  CostModel cost_;
  std::unique_ptr<Drafter> drafter_;

  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission; null once gone within an iteration
  std::vector<std::unique_ptr<Sequence>>
      pending_;                              // preempted, or taken from the queue and not yet placed; as they came
  std::array<Holdings, kPriorities> slots_;  // sequences of each party in running_, once counted
  bool must_be_yielded_ = false;             // a place, to whoever is to be chosen
  std::vector<int32_t> tenant_ranks_;        // of running_, within each tenant
  std::optional<Priority> next_class_;       // which is admitted next
  int32_t bypassed_ = 0;                     // admissions of the other class since then
  int64_t next_id_ = 0;
  SamplerScratch scratch_;
  std::vector<ScheduleInput> inputs_;
  std::vector<ScheduledTokens> scheduled_;
  std::vector<uint64_t> page_keys_;  // of the next whole page of each running prompt; 0: none
  std::vector<DraftRequest> draft_requests_;
  double draft_token_ns_ = 0;  // time that the drafter takes per token
  int64_t drafting_ns_ = 0;    // time that it took in this iteration
  std::vector<TokenId> batch_tokens_;
  std::vector<BatchSlice> batch_slices_;
  int64_t batch_attended_ = 0;
  const bool runner_samples_;
  SampleBatch samples_;                      // of all rows whose samples are known when the step is done
  SampleBatch late_samples_;                 // of one row
  std::shared_ptr<EventChannel> admitting_;  // whose request has left the queue and is no sequence yet
  FailureScope failure_scope_ = FailureScope::kNothing;
  size_t failing_sequence_ = 0;

  EngineCounters counters_;
  std::atomic<double> prompt_row_ns_ = 0;  // what a row of a prompt takes, as far as is known

  mutable std::mutex reports_mutex_;  // guards the next two
  std::vector<std::pair<Party, PrefixReport>> reports_;
  size_t next_report_ = 0;
};

}  // namespace cairn
