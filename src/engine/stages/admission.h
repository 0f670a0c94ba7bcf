/// Admission into the batch: requests wait here, are checked, get slots and pages, and come back when they are
/// preempted.
///
/// Who goes first and who yields follows scheduling/fair_shares.h; the order of classes is that of their weights
/// (scheduling/stride.h).
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
#include "engine/adapter_scales.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/kv/kv_manager.h"
#include "engine/output/event_channel.h"
#include "engine/request.h"
#include "engine/request_validation.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/stride.h"
#include "engine/scheduling/tenants.h"
#include "engine/sequence/sequence.h"
#include "engine/stages/emitter.h"
#include "engine/stages/preemption_policy.h"
#include "model/runner.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// A sequence whose client reads nothing for this long is preempted, even if no other request waits for its pages.
inline constexpr std::chrono::seconds kStallMax{10};

/// Owns everything that waits: the queue, and the sequences that are pending. The caller owns the running ones.
class Admission {
 public:
  /// All arguments passed by reference outlive this. At most `sequences_max` sequences run; each drafts at most
  /// `drafts_max` tokens per step.
  Admission(const model::Runner& runner, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
            int32_t sequences_max, int32_t drafts_max, KvManager& kv, Emitter& emitter, EngineCounters& counters,
            const Clock& clock);

  // -- From any thread.
  /// Events go to `channel`. Errors: see Engine::submit.
  Result<void> submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel);
  RequestQueue& queue() { return queue_; }
  const RequestQueue& queue() const { return queue_; }
  const AdmissionLimits& limits() const { return limits_; }
  AdapterScales& adapters() { return adapters_; }
  const AdapterScales& adapters() const { return adapters_; }

  // -- From the engine's thread.
  RuleWorkers& rules() { return rules_; }
  /// The first stage of an iteration: ends cancelled requests and those whose clients have not read for too long,
  /// preempts stalled sequences, and admits waiting requests in order while slots and memory last. When this returns,
  /// preempting any of `running` needs no memory.
  void admit(int64_t now_ns, Sequences& running);
  /// Orders `running` for the step: see SequenceOrder::rank.
  void rank(const Sequences& running) { policy_.rank(running); }
  /// Preempts a sequence for the pages of `sequence`: one that comes after it, or `sequence` itself if it is the last.
  /// The preempted one is null in `running` afterwards.
  void preempt_for(const Sequence& sequence, Sequences& running);
  /// Finishes all waiting requests with kCancelled.
  void end_all() noexcept;
  /// Sets the expected nanoseconds per prompt token, from which deadlines follow from now on.
  void set_prompt_token_ns(double ns) { prompt_token_ns_ = ns; }
  /// Sequences that were preempted, or were taken from the queue and found no memory, in that order.
  std::span<const std::unique_ptr<Sequence>> pending() const { return pending_; }

 private:
  // The order in which waiting requests of a class are admitted.
  class Order;

  int64_t first_token_deadline(const GenerateRequest& request, int64_t arrival_ns) const;
  void end_slot_actions(Sequences& running);
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

  RuleWorkers rules_;  // of all sequences, which go before it
  const tokenizer::Tokenizer& tokenizer_;
  const Clock& clock_;
  KvManager& kv_;
  Emitter& emitter_;
  EngineCounters& counters_;
  const AdmissionLimits limits_;
  AdapterScales adapters_;
  const int32_t drafts_max_;
  const size_t unread_max_;  // sequences in pending_ whose clients do not read
  const Error does_not_fit_{Code::kTooLarge, "the request does not fit", {}};
  const Error unread_{Code::kQueueFull, "the client does not read its answer, and too many others wait to be read", {}};
  Tenants tenants_;
  RequestQueue queue_;
  std::atomic<double> prompt_token_ns_ = 0;

  PreemptionPolicy policy_;
  Stride classes_;
  std::optional<Priority> next_class_;  // class that is admitted next
  int32_t bypassed_ = 0;                // admissions of the other class since next_class_ was set
  int64_t next_id_ = 0;
  sampling::SamplerScratch scratch_;  // shared by all sequences
  Sequences pending_;
};

}  // namespace cairn::engine
