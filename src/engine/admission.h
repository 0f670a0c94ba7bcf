/// The way into the batch: requests wait here, are checked, take places and pages, and are put back.
///
/// Who goes first and who yields follows fair_shares.h; the order of classes is that of their weights (stride.h).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/system/clock.h"
#include "engine/engine.h"
#include "engine/engine_counters.h"
#include "engine/kv_manager.h"
#include "engine/output/emitter.h"
#include "engine/output/event_channel.h"
#include "engine/request_validation.h"
#include "engine/scheduling/preemption_policy.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/stride.h"
#include "engine/scheduling/tenants.h"
#include "engine/sequence.h"
#include "model/runner.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

/// A sequence whose client takes nothing for so long gives its pages back, even if nobody waits for them.
inline constexpr std::chrono::seconds kStallMax{10};

/// Owns everything that waits: the queue, and the sequences that are pending. Those that run are the caller's.
class Admission {
 public:
  /// All referred to outlive this. At most `sequences_max` run; each drafts `drafts_max` tokens in a step at most.
  Admission(const Runner& runner, const Tokenizer& tokenizer, const EngineOptions& options, int32_t sequences_max,
            int32_t drafts_max, KvManager& kv, Emitter& emitter, EngineCounters& counters, const Clock& clock);

  // -- From any thread.
  /// Events go to `channel`. Errors: see Engine::submit.
  Result<void> submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel);
  RequestQueue& queue() { return queue_; }
  const RequestQueue& queue() const { return queue_; }
  const AdmissionLimits& limits() const { return limits_; }

  // -- From the engine's thread.
  /// The first stage of an iteration: ends what was cancelled and what waited to be read for too long, puts back what
  /// is not read, and lets in who comes first while places and memory last. When this returns, putting any of
  /// `running` back needs no memory.
  void admit(int64_t now_ns, Sequences& running);
  /// Orders `running` for the step: see Sequence::rank.
  void rank(const Sequences& running) { policy_.rank(running); }
  /// Puts one back for the pages of `sequence`: one that comes after it, or it itself if it is the last. Null in
  /// `running` then.
  void preempt_for(const Sequence& sequence, Sequences& running);
  /// Finishes all that wait with kCancelled.
  void end_all() noexcept;
  /// What a token of a prompt is expected to take, from now on: deadlines follow from it.
  void set_prompt_token_ns(double ns) { prompt_token_ns_ = ns; }
  /// Sequences that were preempted, or taken from the queue and not placed, as they came.
  std::span<const std::unique_ptr<Sequence>> pending() const { return pending_; }

 private:
  // Who waits, seen by the order in which a class is admitted.
  class Order;

  int64_t first_token_deadline(const GenerateRequest& request, int64_t arrival_ns) const;
  void drop_cancelled(Sequences& running);
  void preempt_stalled(int64_t now_ns, Sequences& running);
  void admit_waiting(Sequences& running);
  void admit_unread(Sequences& running);
  bool admit_one(Priority priority, Sequences& running);
  void start(std::unique_ptr<Sequence> sequence, Sequences& running);
  bool may_admit(Priority priority, Sequences& running);
  Order order_of(Priority priority, Sequences& running);
  std::unique_ptr<Sequence>* first_pending(Priority priority, const Order& order);
  std::optional<Waiting> first_waiting(Priority priority, Sequences& running);
  std::unique_ptr<Sequence> take_candidate(Priority priority, Sequences& running);
  std::unique_ptr<Sequence> make_sequence(Submission& submission);
  bool free_slot(const Sequence& candidate, Sequences& running);
  bool make_room(const Sequence& candidate, Sequences& running);
  void preempt(std::unique_ptr<Sequence>& sequence, PreemptReason why);
  void reserve_pending(const Sequences& running) { pending_.reserve(pending_.size() + running.size() + 1); }

  const Tokenizer& tokenizer_;
  const Clock& clock_;
  KvManager& kv_;
  Emitter& emitter_;
  EngineCounters& counters_;
  const AdmissionLimits limits_;
  const int32_t drafts_max_;
  const size_t unread_max_;  // sequences in pending_ whose clients do not read
  const Error does_not_fit_{Code::kTooLarge, "the request does not fit", {}};
  const Error unread_{Code::kQueueFull, "the client does not read its answer, and too many others wait to be read", {}};
  Tenants tenants_;
  RequestQueue queue_;
  std::atomic<double> prompt_token_ns_ = 0;

  PreemptionPolicy policy_;
  Stride classes_;
  std::optional<Priority> next_class_;  // which is admitted next
  int32_t bypassed_ = 0;                // admissions of the other class since then
  int64_t next_id_ = 0;
  SamplerScratch scratch_;  // of all sequences
  Sequences pending_;
};

}  // namespace cairn
