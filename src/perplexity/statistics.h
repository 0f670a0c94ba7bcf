/// From scores of positions to perplexities and divergences, with standard errors.
///
/// Standard errors assume independent positions, as llama-perplexity's do.
#pragma once

#include <cstdint>
#include <span>

#include "perplexity/row_scores.h"

namespace cairn::perplexity {

struct Estimate {
  double value = 0;
  double error = 0;  ///< standard error; 0 for a single position
};

/// e^(mean of nll); its error is the perplexity times the mean's. `scores` is not empty.
Estimate perplexity_of(std::span<const PositionScore> scores);

struct ModelComparison {
  Estimate base_perplexity;
  Estimate perplexity_ratio;      ///< this model's perplexity divided by the base's
  Estimate log_perplexity_ratio;  ///< its natural logarithm
  double correlation = 0;  ///< correlation of the log-probabilities of the next tokens, -1 .. 1; 0 if one is constant

  Estimate divergence;  ///< mean, in nats
  double divergence_median = 0;
  double divergence_p90 = 0;
  double divergence_p95 = 0;
  double divergence_p99 = 0;
  double divergence_largest = 0;

  Estimate same_first;              ///< share of positions at which the most likely token is the base's
  Estimate probability_change;      ///< mean change of the next tokens' probabilities
  Estimate probability_change_rms;  ///< root mean square of that change
};

/// `scores` is not empty and has a base's scores.
ModelComparison compare_models(std::span<const PositionScore> scores);

}  // namespace cairn::perplexity
