/// The filters of the chain: each drops candidates that are unlikely by the probabilities of its input.
#pragma once

#include <vector>

#include "sampling/candidates.h"

namespace cairn {

/// Tolerance for reaching a bound: absolute for sums of probabilities, relative for ratios. A probability computed from
/// a float logit is only accurate to about 1e-7: without this, rounding would decide cases like top_p 0.75 over 0.5,
/// 0.25, 0.25.
inline constexpr double kProbabilitySlack = 1e-6;

/// Sets each probability so that they sum to 1.
void normalise(std::vector<Candidate>& candidates);

/// Keeps the fewest candidates whose probabilities reach `mass`, most likely first, and at least one. The result is in
/// that order. Probabilities must be set, and are not normalised again.
void keep_top_p(std::vector<Candidate>& candidates, double mass);

/// Keeps the fewest candidates whose probabilities reach `mass`, starting with those whose surprise -ln p is nearest to
/// the expected one (the entropy), and at least one. Sets probabilities first; does not keep the order.
void keep_typical(std::vector<Candidate>& candidates, double mass);

/// Keeps candidates at least `ratio` times as probable as the most likely one. Order is kept.
void keep_min_p(std::vector<Candidate>& candidates, double ratio);

}  // namespace cairn
