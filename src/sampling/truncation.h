/// The filters of the chain: each drops candidates that the probabilities of those it was given make unlikely.
#pragma once

#include <vector>

#include "sampling/candidates.h"

namespace cairn {

/// How near a bound counts as having reached it, for sums of probabilities and relative for ratios. A probability that
/// went through a float logit is only good to about 1e-7: without this, rounding would decide cases like top_p 0.75
/// over 0.5, 0.25, 0.25.
inline constexpr double kProbabilitySlack = 1e-6;

/// Sets each probability so that they sum to 1.
void normalise(std::vector<Candidate>& candidates);

/// Keeps the fewest candidates whose probabilities reach `mass`, most likely first, and at least one. The result is in
/// that order. Probabilities are set and stay as they are.
void keep_top_p(std::vector<Candidate>& candidates, double mass);

/// Keeps the fewest candidates whose probabilities reach `mass`, those first whose surprise -ln p is nearest to the
/// expected one (the entropy), and at least one. Sets probabilities first; order is not kept.
void keep_typical(std::vector<Candidate>& candidates, double mass);

/// Keeps candidates at least `ratio` times as probable as the most likely one. Order is kept.
void keep_min_p(std::vector<Candidate>& candidates, double ratio);

}  // namespace cairn
