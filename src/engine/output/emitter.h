/// From a step's logits to events: samples tokens, hands them to the sequences and tells the clients.
///
/// A sequence moves on only here, and only once its events are whole. If memory runs out at one sequence, those after
/// it are where they were, and the next step computes their rows again, to the same values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "engine/engine_counters.h"
#include "engine/event.h"
#include "engine/kv_manager.h"
#include "engine/output/event_channel.h"
#include "engine/output/sample_batch.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/step_batch.h"
#include "engine/sequence.h"
#include "engine/speculation/drafting.h"
#include "model/runner.h"

namespace cairn {

/// Thread: the engine's, but where it says otherwise.
class Emitter {
 public:
  /// All referred to outlive this.
  Emitter(Runner& runner, KvManager& kv, Drafting& drafting, EngineCounters& counters);

  // -- Stages of an iteration.
  /// Makes batch.samples: all samples of the step that do not depend on each other, if the runner samples.
  Result<void> sample(const Sequences& running, StepBatch& batch);
  /// Emits what the step gave each sequence. An error, or an exception, has ended the sequence that it met, and no
  /// other.
  Result<void> emit(const StepBatch& batch, const LogitsView& logits, int64_t now_ns, Sequences& running);

  // -- Ends. The client can see one only when the request counts for nothing any more.
  /// Of a running sequence, which is null then.
  void finish(std::unique_ptr<Sequence>& sequence, Events&& events);
  /// Of a sequence that holds no pages.
  void finish_pending(std::unique_ptr<Sequence> sequence, FinishReason reason, Error error);
  /// Of a request that has left the queue and runs nowhere. From any thread.
  void finish_queued(Submission& submission, FinishReason reason, Error error);
  /// Of a request of which nothing is left but its channel.
  void fail(const std::shared_ptr<EventChannel>& channel, const Error& error) noexcept;
  /// Of all sequences of a step that failed.
  void fail(const StepBatch& batch, const Error& error, Sequences& running) noexcept;

  /// Wakes clients that could not be woken for want of memory; false if there is none for some.
  bool notify_again() noexcept { return unnotified_.notify_again(); }

 private:
  // What a step has computed, taken from the front, sequence by sequence.
  struct Outputs {
    const LogitsView& logits;
    std::span<const float> hidden;  // rows that nobody has taken
    int64_t row = 0;                // of the logits, that nobody has taken
  };

  Result<void> emit_hidden(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share, int64_t now_ns,
                           Outputs& outputs);
  Result<void> emit_tokens(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share, const StepBatch& batch,
                           int64_t now_ns, Outputs& outputs);
  Result<void> add_tokens(Sequence& sequence, const ScheduledTokens& share, const StepBatch& batch,
                          const Outputs& outputs, Events& events);
  Result<Sampled> choose(Sequence& sequence, const SampleBatch& samples, const LogitsView& logits, int64_t row);

  Runner& runner_;
  KvManager& kv_;
  Drafting& drafting_;
  EngineCounters& counters_;
  const bool runner_samples_;
  UnnotifiedChannels unnotified_;
  SampleBatch late_samples_;  // of one row, within choose()
};

}  // namespace cairn
