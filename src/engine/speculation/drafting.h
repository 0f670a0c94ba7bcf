/// Whom the drafter is asked for, and how much: drafts are proposed where they are likely to pay.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/system/clock.h"
#include "engine/engine.h"
#include "engine/kv_manager.h"
#include "engine/scheduling/cost_model.h"
#include "engine/sequence.h"
#include "engine/speculation/drafter.h"

namespace cairn {

/// Owns the drafter, and knows what its drafts cost. Thread: the engine's.
class Drafting {
 public:
  /// `drafter` null: no speculation. All referred to outlive this.
  Drafting(std::unique_ptr<Drafter> drafter, const EngineOptions& options, int32_t vocabulary, int32_t sequences_max,
           KvManager& kv, const Clock& clock);

  /// Drafts of a sequence and step at most; 0: there is no speculation.
  int32_t drafts_max() const { return drafts_max_; }
  /// Writes the drafts() of all of `running`, for most of them none. `cost` is that of steps without the time of
  /// drafts. The nanoseconds that the drafter took. Whatever fails leaves no drafts: nobody needs them.
  int64_t propose(const Sequences& running, const CostModel& cost);
  /// The sequence has gone.
  void forget(SequenceId sequence);

 private:
  void collect_requests(const Sequences& running, const CostModel& cost);
  void learn_cost(int64_t drafting_ns);

  KvManager& kv_;
  const Clock& clock_;
  const std::unique_ptr<Drafter> drafter_;
  const int32_t drafts_max_;
  const int32_t vocabulary_;
  std::vector<DraftRequest> requests_;  // of this step; keeps its memory
  double token_ns_ = 0;                 // time that the drafter takes per token
};

}  // namespace cairn
