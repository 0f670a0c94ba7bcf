/// Drafts what constraints expect, chooses for which other sequences drafts are likely to pay, and how many, and calls
/// the drafter.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/system/clock.h"
#include "engine/engine_options.h"
#include "engine/kv/kv_manager.h"
#include "engine/scheduling/cost_model.h"
#include "engine/sequence/sequence.h"
#include "engine/speculation/drafter.h"

namespace cairn::engine {

/// Owns the drafter and measures the cost of its drafts. Thread: the engine's.
class Drafting {
 public:
  /// `drafter` null: no speculation. All arguments passed by reference outlive this.
  Drafting(std::unique_ptr<Drafter> drafter, const EngineOptions& options, const model::Runner& runner,
           int32_t sequences_max, KvManager& kv, const Clock& clock);

  /// Maximum drafts of a sequence per step; 0: there is no speculation.
  int32_t drafts_max() const { return drafts_max_; }
  /// Writes the drafts of all of `running`; most may get none. `cost` is that of steps without the time of drafting.
  /// Returns the nanoseconds that the drafter took. A failure leaves no drafts, which is no error.
  int64_t propose(const Sequences& running, const CostModel& cost);
  /// Drops all state of a sequence that has gone.
  void forget(SequenceId sequence);

 private:
  void collect_requests(const Sequences& running, const CostModel& cost);
  /// Takes the pages that up to `wanted` drafts write to, those of the step that checks them too; returns for how many
  /// drafts there are.
  int32_t reserve(Sequence& sequence, int32_t wanted);
  void learn_cost(int64_t drafting_ns);

  KvManager& kv_;
  const Clock& clock_;
  const std::unique_ptr<Drafter> drafter_;
  const int32_t drafts_max_;
  const float token_probability_min_;
  const int32_t vocabulary_;
  const int32_t context_tokens_;
  std::vector<DraftRequest> requests_;  // requests of this step; keeps its memory
  double token_ns_ = 0;                 // nanoseconds that the drafter takes per token
};

}  // namespace cairn::engine
