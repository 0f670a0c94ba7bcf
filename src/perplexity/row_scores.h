/// Scores of one row of logits: of the token that follows in the text, and in comparison with another model's row.
///
/// Sums are of doubles in a fixed order: the same row gives the same bits on every thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "perplexity/logits_file.h"

namespace cairn::perplexity {

/// The normaliser of a row of logits: entry i has the log-probability (logits[i] - largest) - log_sum.
struct LogSum {
  float largest = 0;
  double log_sum = 0;
};
LogSum log_sum(std::span<const float> logits);

/// The score of one counted position. The lower half is set only if there are log-probabilities of another model.
struct PositionScore {
  double nll = 0;  ///< negative log-probability of the token that follows, natural logarithm

  double base_nll = 0;    ///< the same of the other model
  double divergence = 0;  ///< Kullback-Leibler divergence from the other model, in nats
  bool same_first = false;

  double probability_change() const;  ///< change of the next token's probability, from the other model's to this one's
};

/// Not finite if a logit is NaN or infinite.
double negative_log_probability(std::span<const float> logits, const LogSum& sum, TokenId token);

/// Fills the lower half of `score`. Entries to which the other model gives less than e^-16 are left out of the
/// divergence, as llama-perplexity does, because the file does not have their values. `block_max` is scratch.
void compare_row(std::span<const float> logits, const LogSum& sum, const LogitsRecord& base, TokenId token,
                 std::vector<float>& block_max, PositionScore& score);

}  // namespace cairn::perplexity
