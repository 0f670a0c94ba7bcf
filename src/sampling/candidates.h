/// What the sampler's steps work on: tokens still in play, and memory that samplers of one thread can share.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace cairn {

struct Candidate {
  TokenId token = kNoToken;
  float logit = 0;         ///< after bias and penalties; never NaN or infinite
  double probability = 0;  ///< of what the last step left, or a weight that is not divided by the sum yet
};

/// Strict order, most likely first; equal logits: lower id first.
inline bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : index(a.token) < index(b.token);
}

/// Scratch of a sampler, about 24 bytes per entry of the vocabulary. Nothing in it survives a call.
struct SamplerScratch {
  std::vector<float> logits;      // [vocabulary] after bias and penalties
  std::vector<float> block_max;   // [blocks]
  std::vector<float> weights;     // [vocabulary] exp((logit - largest) / temperature)
  std::vector<double> block_sum;  // [blocks] of weights
  std::vector<Candidate> candidates;

  void reserve(int32_t vocabulary);
};

}  // namespace cairn
