/// Who gets how many rows of a step. Pure: no clock, no model, no state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cairn {

/// What one running sequence could use: the rows of its tokens that the model has not seen.
struct Demand {
  int32_t rows = 0;     ///< at least 1
  bool decode = false;  ///< one row whose token was sampled; otherwise what is left of the prompt
};

struct StepLimits {
  int32_t rows_max = 0;        ///< of the model's step
  int32_t logit_rows_max = 0;  ///< of the model's step
  int32_t chunk_rows_max = 0;  ///< of prompts
};

struct Share {
  int32_t demand = 0;   ///< index of the demand
  int32_t rows = 0;     ///< at least 1
  bool logits = false;  ///< the last row of what it wants is among them
};

/// Decode rows first, so that no stream waits for another's prompt. Then prompts, in order of demands (first come
/// first): each gets at most its equal part of the chunk, so that a short prompt is not stuck behind a long one; what
/// is left over goes to the first that can use it. With as many demands as rows_max and logit_rows_max at most, every
/// decode demand is met, and every step serves somebody.
void plan_step(std::span<const Demand> demands, const StepLimits& limits, std::vector<Share>& plan);

}  // namespace cairn
