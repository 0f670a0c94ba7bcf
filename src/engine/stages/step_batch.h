/// One step of the model: what each sequence wants, how much it gets, and the rows themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/output/sample_batch.h"
#include "engine/scheduling/cost_model.h"
#include "engine/scheduling/scheduler.h"
#include "engine/sequence/sequence.h"
#include "model/runner.h"

namespace cairn::engine {

/// What the stages of an iteration hand on. Its lists keep their memory from step to step. Slices refer to the tables
/// of sequences, and samples refer to rows, of this step only.
struct StepBatch {
  std::vector<ScheduleInput> inputs;       ///< one for each running sequence, in their order
  std::vector<ScheduledTokens> scheduled;  ///< one for each sequence that has rows in the step
  std::vector<TokenId> tokens;             ///< tokens of all rows
  std::vector<model::BatchSlice> slices;   ///< one for each element of `scheduled`
  int64_t attended = 0;                    ///< sum over all rows of the positions that each attends to (attended_by)
  SampleBatch samples;                     ///< samples of rows, taken together by the runner

  void reserve(size_t sequences, size_t batch_tokens_max);
  /// Whether the share is a stream's token and drafts; otherwise it is rows of a prompt.
  bool decodes(const ScheduledTokens& share) const { return inputs[static_cast<size_t>(share.demand)].decode; }
};

/// Fills `inputs`. `limits` are the scheduler's; at_risk is computed from `cost` and `now_ns`.
void collect_inputs(const Sequences& running, const CostModel& cost, const StepLimits& limits, int64_t now_ns,
                    StepBatch& batch);
/// If several prompts are about to compute the same page (KvManager::page_keys), only the first does; the others find
/// it in the cache in a later step.
void defer_duplicate_prefills(const Sequences& running, std::span<const uint64_t> page_keys, StepBatch& batch);
/// Fills tokens, slices and attended from `scheduled`, whose sequences all run.
void lay_out(const Sequences& running, StepBatch& batch);

}  // namespace cairn::engine
