/// Scans of a whole row of logits, in blocks, so that later scans can skip blocks without relevant logits.
///
/// NaN never wins a comparison here: it counts as -infinity. Sums have a fixed order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/candidates.h"

namespace cairn::sampling {

/// Logits per block: a block's part of a row stays in the first-level cache, and its maximum costs 1/256 more memory.
inline constexpr size_t kScanBlock = 256;
inline size_t scan_blocks(size_t logits) { return (logits + kScanBlock - 1) / kScanBlock; }

/// Fills block_max [scan_blocks] and returns the largest logit; -infinity if there is none.
float scan_maxima(std::span<const float> logits, std::vector<float>& block_max);

/// The lowest id whose logit is `largest`; kNoToken if that is -infinity.
TokenId scan_first(std::span<const float> logits, std::span<const float> block_max, float largest);

/// weights[i] = exp((logits[i] - largest) / temperature), 0 below 2^-126, relative error below 3e-7; block_sum their
/// sums. Returns the sum of all. `largest` is finite.
double scan_weights(std::span<const float> logits, float largest, float temperature, std::vector<float>& weights,
                    std::vector<double>& block_sum);

/// Selects the k most likely tokens, in order; fewer if fewer have a logit above -infinity.
void select_top_k(std::span<const float> logits, std::span<const float> block_max, size_t k,
                  std::vector<Candidate>& out);

/// Selects all tokens whose logit is at least `threshold` and above -infinity, by id.
void select_at_least(std::span<const float> logits, std::span<const float> block_max, double threshold,
                     std::vector<Candidate>& out);

}  // namespace cairn::sampling
