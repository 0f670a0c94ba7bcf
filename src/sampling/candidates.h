/// Data of the sampler's steps: the remaining candidates, and memory that samplers of one thread can share.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace cairn::sampling {

struct Candidate {
  TokenId token = kNoToken;
  float logit = 0;         ///< after bias and penalties; never NaN or infinite
  double probability = 0;  ///< among the candidates that the last step kept, or a weight that is not normalised yet
};

/// Strict order, most likely first; equal logits: lower id first.
inline bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : index(a.token) < index(b.token);
}

/// Scratch memory of a sampler, about 24 bytes per entry of the vocabulary. Its contents do not survive a call.
struct SamplerScratch {
  std::vector<float> logits;      // [vocabulary] after bias and penalties
  std::vector<float> block_max;   // [blocks]
  std::vector<float> weights;     // [vocabulary] exp((logit - largest) / temperature)
  std::vector<double> block_sum;  // [blocks] sums of weights
  std::vector<Candidate> candidates;

  void reserve(int32_t vocabulary);
};

}  // namespace cairn::sampling
