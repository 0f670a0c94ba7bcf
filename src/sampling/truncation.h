/// The filters of the chain: each drops candidates that are unlikely by the probabilities of its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/candidates.h"
#include "tokenizer/tokenizer.h"

namespace cairn::sampling {

/// Tolerance for reaching a bound: absolute for sums of probabilities, relative for ratios. A probability computed from
/// a float logit is only accurate to about 1e-7: without this, rounding would decide cases like top_p 0.75 over 0.5,
/// 0.25, 0.25.
inline constexpr double kProbabilitySlack = 1e-6;

/// Sets each probability, at that temperature, so that they sum to 1.
void normalise(std::vector<Candidate>& candidates, double temperature = 1);

// A filter leaves at least `min_keep` candidates, and at least one, if there are so many.

/// Keeps the fewest candidates whose probabilities reach `mass`, most likely first. The result is in that order.
/// Probabilities must be set, and are not normalised again.
void keep_top_p(std::vector<Candidate>& candidates, double mass, size_t min_keep = 1);

/// Keeps the fewest candidates whose probabilities reach `mass`, starting with those whose surprise -ln p is nearest to
/// the expected one (the entropy). Sets probabilities first; does not keep the order.
void keep_typical(std::vector<Candidate>& candidates, double mass, size_t min_keep = 1);

/// Keeps candidates at least `ratio` times as probable as the most likely one. Order is kept.
void keep_min_p(std::vector<Candidate>& candidates, double ratio, size_t min_keep = 1);

/// Keeps the k most likely candidates, in that order.
void keep_top_k(std::vector<Candidate>& candidates, size_t k);

/// The least logit that top-n-sigma keeps: the largest less `sigmas` times the standard deviation of all logits above
/// -infinity.
double least_within_sigmas(std::span<const float> logits, double largest, double sigmas);
/// The same of candidates, whose order is kept.
void keep_within_sigmas(std::vector<Candidate>& candidates, double sigmas);

/// XTC: of the candidates with a probability of at least `threshold`, all but the least likely go, if there are two or
/// more. Sets probabilities first. Order is kept.
void drop_top_choices(std::vector<Candidate>& candidates, double threshold, size_t min_keep);

/// For filling in the middle, after top-k and top-p (llama.cpp's "infill"): where ending is likely, only tokens that
/// end are kept; else of two tokens of which one begins the other's text, the likelier has the probability of both, and
/// of what then has less than 0.2, or less than an even share, only tokens that end are kept. Probabilities become
/// logits.
void keep_infill(std::vector<Candidate>& candidates, const tokenizer::Tokenizer& tokenizer);

/// A temperature within `range` of the given one, never below 0: the more even the probabilities, the higher. Sets
/// probabilities.
double dynamic_temperature(std::vector<Candidate>& candidates, double temperature, double range, double exponent);

/// Mirostat: what is kept for a surprise of about `limit` bits. Probabilities are those of `temperature`.
/// Version 1 estimates the exponent of Zipf's law from the most likely candidates, and k from that and the size of the
/// vocabulary; version 2 drops candidates that are more surprising than the limit.
void keep_mirostat1(std::vector<Candidate>& candidates, double limit, double temperature, int32_t vocabulary);
void keep_mirostat2(std::vector<Candidate>& candidates, double limit, double temperature);

}  // namespace cairn::sampling
