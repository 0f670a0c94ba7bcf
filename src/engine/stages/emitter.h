/// From a step's logits to events: samples tokens, hands them to the sequences and tells the clients.
///
/// A sequence moves on only here, and only once its events are whole. If memory runs out at one sequence, those after
/// it have not moved, and the next step computes their rows again, to the same values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "engine/engine_counters.h"
#include "engine/event.h"
#include "engine/kv/kv_manager.h"
#include "engine/output/event_channel.h"
#include "engine/output/sample_batch.h"
#include "engine/scheduling/request_queue.h"
#include "engine/sequence/sequence.h"
#include "engine/stages/drafting.h"
#include "engine/stages/step_batch.h"
#include "model/runner.h"

namespace cairn::engine {

/// Thread: the engine's, unless said otherwise.
class Emitter {
 public:
  /// All arguments passed by reference outlive this.
  Emitter(model::Runner& runner, KvManager& kv, Drafting& drafting, EngineCounters& counters);

  // -- Stages of an iteration.
  /// Takes the rules that constraints have found out since they were asked; answers that are over with them go.
  void settle(Sequences& running);
  /// Fills batch.samples with all samples of the step that do not depend on each other, if the runner samples.
  Result<void> sample(const Sequences& running, StepBatch& batch);
  /// Emits the step's tokens or embedding of each sequence. An error, or an exception, has ended the sequence at which
  /// it happened, and no other.
  Result<void> emit(const StepBatch& batch, const model::LogitsView& logits, int64_t now_ns, Sequences& running);

  // -- Ends. A client can see its finish only when the request no longer counts in the statistics and limits.
  /// Finishes a running sequence, which is null afterwards.
  void finish(std::unique_ptr<Sequence>& sequence, Events&& events);
  /// Finishes a sequence that holds no pages.
  void finish_pending(std::unique_ptr<Sequence> sequence, FinishReason reason, Error error);
  /// Finishes a request that has left the queue and does not run. Callable from any thread.
  void finish_queued(Submission& submission, FinishReason reason, Error error);
  /// Fails a request of which only its channel is left.
  void fail(const std::shared_ptr<EventChannel>& channel, const Error& error) noexcept;
  /// Fails all sequences of a step.
  void fail(const StepBatch& batch, const Error& error, Sequences& running) noexcept;

  /// Tries again to wake clients whose wake-up failed for lack of memory; false if one failed again.
  bool notify_again() noexcept { return unnotified_.notify_again(); }

 private:
  // The step's results that are not emitted yet, taken from the front, sequence by sequence.
  struct Outputs {
    const model::LogitsView& logits;
    std::span<const float> hidden;  // rows not taken yet
    int64_t row = 0;                // first row of the logits not taken yet
  };

  Result<void> emit_hidden(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share, int64_t now_ns,
                           Outputs& outputs);
  Result<void> emit_tokens(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share, const StepBatch& batch,
                           int64_t now_ns, Outputs& outputs);
  Result<std::span<const float>> logits_row(const Outputs& outputs, int64_t row);
  Result<void> add_scores(Sequence& sequence, const ScheduledTokens& share, Outputs& outputs);
  Result<void> add_tokens(Sequence& sequence, const ScheduledTokens& share, const StepBatch& batch,
                          const Outputs& outputs, Events& events);
  Result<sampling::Sampled> choose(SequenceSampling& sampling, const SampleBatch& samples,
                                   const model::LogitsView& logits, int64_t row);

  model::Runner& runner_;
  KvManager& kv_;
  Drafting& drafting_;
  EngineCounters& counters_;
  const bool runner_samples_;
  UnnotifiedChannels unnotified_;
  SampleBatch late_samples_;  // a single row, within choose()
};

}  // namespace cairn::engine
