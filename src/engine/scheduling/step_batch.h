/// One step of the model, as it is put together: who wants what, who gets how much, and the rows themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/output/sample_batch.h"
#include "engine/scheduling/cost_model.h"
#include "engine/scheduling/scheduler.h"
#include "engine/sequence.h"
#include "model/runner.h"

namespace cairn {

/// What the stages of an iteration hand on. Its lists keep their memory from step to step. Slices refer to the tables
/// of sequences, and samples to rows, of this step only.
struct StepBatch {
  std::vector<ScheduleInput> inputs;       ///< of all running sequences, in their order
  std::vector<ScheduledTokens> scheduled;  ///< of those that have rows in the step
  std::vector<TokenId> tokens;             ///< of all rows
  std::vector<BatchSlice> slices;          ///< as `scheduled`
  int64_t attended = 0;                    ///< positions that rows attend to, summed (attended_by)
  SampleBatch samples;                     ///< of rows whose tokens the runner samples together

  void reserve(size_t sequences, size_t batch_tokens_max);
  /// Whether the share is a stream's: its token and drafts. Otherwise it is of a prompt.
  bool decodes(const ScheduledTokens& share) const { return inputs[static_cast<size_t>(share.demand)].decode; }
};

/// Fills `inputs`. `limits` as the scheduler's; what is said to be at risk follows from `cost` and `now_ns`.
void collect_inputs(const Sequences& running, const CostModel& cost, const StepLimits& limits, int64_t now_ns,
                    StepBatch& batch);
/// Of several prompts about to compute the same page (KvManager::page_keys) only the first does; the others find it in
/// the cache then.
void defer_duplicate_prefills(const Sequences& running, std::span<const uint64_t> page_keys, StepBatch& batch);
/// Fills tokens, slices and attended from `scheduled`, whose sequences all run.
void lay_out(const Sequences& running, StepBatch& batch);

}  // namespace cairn
