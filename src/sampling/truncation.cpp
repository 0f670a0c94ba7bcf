#include "sampling/truncation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace cairn {
namespace {

float largest_logit(const std::vector<Candidate>& candidates) {
  float largest = candidates.front().logit;
  for (const Candidate& candidate : candidates) largest = std::max(largest, candidate.logit);
  return largest;
}

// Sorts only as far as needed: chunk after chunk, each four times as large as the one before. Usually the first
// suffices.
template <class Before>
void keep_mass(std::vector<Candidate>& candidates, double mass, Before before) {
  double sum = 0;
  size_t done = 0;
  for (size_t chunk = 64; done < candidates.size(); chunk *= 4) {
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(done);
    const size_t end_index = std::min(candidates.size(), done + chunk);
    const auto end = candidates.begin() + static_cast<ptrdiff_t>(end_index);
    if (end != candidates.end()) std::nth_element(begin, end, candidates.end(), before);
    std::sort(begin, end, before);
    while (done < end_index) {
      sum += candidates[done++].probability;
      if (sum >= mass - kProbabilitySlack) {
        candidates.resize(done);
        return;
      }
    }
  }
}

}  // namespace

void normalise(std::vector<Candidate>& candidates) {
  if (candidates.empty()) return;
  const double largest = largest_logit(candidates);
  double sum = 0;
  for (Candidate& candidate : candidates) sum += candidate.probability = std::exp(candidate.logit - largest);
  for (Candidate& candidate : candidates) candidate.probability /= sum;
}

void keep_top_p(std::vector<Candidate>& candidates, double mass) { keep_mass(candidates, mass, more_likely); }

void keep_typical(std::vector<Candidate>& candidates, double mass) {
  if (candidates.empty()) return;
  normalise(candidates);
  // The entropy is the mean of -ln p, so the typical logit is the mean logit.
  double typical = 0;
  for (const Candidate& candidate : candidates) typical += candidate.probability * candidate.logit;
  keep_mass(candidates, mass, [typical](const Candidate& a, const Candidate& b) {
    const double from_a = std::abs(a.logit - typical);
    const double from_b = std::abs(b.logit - typical);
    return from_a != from_b ? from_a < from_b : more_likely(a, b);
  });
}

void keep_min_p(std::vector<Candidate>& candidates, double ratio) {
  if (candidates.empty() || ratio <= 0) return;
  const double least = largest_logit(candidates) + std::log(ratio) - kProbabilitySlack;
  std::erase_if(candidates, [least](const Candidate& candidate) { return candidate.logit < least; });
}

}  // namespace cairn
