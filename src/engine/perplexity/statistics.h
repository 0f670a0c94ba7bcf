/// From scores of positions to perplexities and divergences, with standard errors.
///
/// Standard errors take positions as independent, as llama-perplexity's do.
#pragma once

#include <cstdint>
#include <span>

#include "engine/perplexity/row_scores.h"

namespace cairn {

struct Estimate {
  double value = 0;
  double error = 0;  ///< standard error; 0 for a single position
};

/// e^(mean of nll); its error is the perplexity times the mean's. `scores` is not empty.
Estimate perplexity_of(std::span<const PositionScore> scores);

struct ModelComparison {
  Estimate base_perplexity;
  Estimate perplexity_ratio;      ///< this model's to the base's
  Estimate log_perplexity_ratio;  ///< its natural logarithm
  double correlation = 0;  ///< of the log-probabilities of the tokens that follow, -1 .. 1; 0 where one is constant

  Estimate divergence;  ///< mean, in nats
  double divergence_median = 0;
  double divergence_p90 = 0;
  double divergence_p95 = 0;
  double divergence_p99 = 0;
  double divergence_largest = 0;

  Estimate same_first;              ///< share of positions at which the most likely token is the base's
  Estimate probability_change;      ///< of the tokens that follow: mean
  Estimate probability_change_rms;  ///< and root of the mean square
};

/// `scores` is not empty and has a base's scores.
ModelComparison compare_models(std::span<const PositionScore> scores);

}  // namespace cairn
