#include "sampling/logit_scan.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "sampling/block_loops.h"

namespace cairn::sampling {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

}  // namespace

void SamplerScratch::reserve(int32_t vocabulary) {
  const auto size = static_cast<size_t>(vocabulary);
  logits.reserve(size);
  block_max.reserve(scan_blocks(size));
  weights.reserve(size);
  block_sum.reserve(scan_blocks(size));
  candidates.reserve(size);
}

float scan_maxima(std::span<const float> logits, std::vector<float>& block_max) {
  const BlockLoops& loops = usable_block_loops().front();
  block_max.resize(scan_blocks(logits.size()));
  float largest = kNothing;
  for (size_t block = 0; block < block_max.size(); ++block) {
    const size_t begin = block * kScanBlock;
    block_max[block] = loops.largest(&logits[begin], std::min(kScanBlock, logits.size() - begin));
    largest = std::max(largest, block_max[block]);
  }
  return largest;
}

TokenId scan_first(std::span<const float> logits, std::span<const float> block_max, float largest) {
  if (largest == kNothing) return kNoToken;
  const auto block = static_cast<size_t>(std::find(block_max.begin(), block_max.end(), largest) - block_max.begin());
  const auto found = std::find(logits.begin() + static_cast<ptrdiff_t>(block * kScanBlock), logits.end(), largest);
  return TokenId{static_cast<int32_t>(found - logits.begin())};
}

double scan_weights(std::span<const float> logits, float largest, float temperature, std::vector<float>& weights,
                    std::vector<double>& block_sum) {
  const BlockLoops& loops = usable_block_loops().front();
  weights.resize(logits.size());
  block_sum.resize(scan_blocks(logits.size()));
  double total = 0;
  for (size_t block = 0; block < block_sum.size(); ++block) {
    const size_t begin = block * kScanBlock;
    const size_t count = std::min(kScanBlock, logits.size() - begin);
    block_sum[block] = loops.weigh(&logits[begin], count, largest, temperature, &weights[begin]);
    total += block_sum[block];
  }
  return total;
}

void select_top_k(std::span<const float> logits, std::span<const float> block_max, size_t k,
                  std::vector<Candidate>& out) {
  out.clear();
  if (k == 0) return;
  // Candidates are collected up to about 2 k, then cut back to the k best; the worst of those is the new threshold.
  // Later equal logits lose to the lower ids that are in already, so the comparison is strict.
  const size_t full = 2 * k + 64;
  const auto kth = static_cast<ptrdiff_t>(k) - 1;
  float beat = kNothing;
  for (size_t block = 0; block < block_max.size(); ++block) {
    if (!(block_max[block] > beat)) continue;
    const size_t end = std::min((block + 1) * kScanBlock, logits.size());
    for (size_t i = block * kScanBlock; i < end; ++i) {
      if (!(logits[i] > beat)) continue;
      out.push_back({TokenId{static_cast<int32_t>(i)}, logits[i], 0});
      if (out.size() < full) continue;
      std::nth_element(out.begin(), out.begin() + kth, out.end(), more_likely);
      out.resize(k);
      beat = out.back().logit;
    }
  }
  if (out.size() > k) {
    std::nth_element(out.begin(), out.begin() + kth, out.end(), more_likely);
    out.resize(k);
  }
  std::sort(out.begin(), out.end(), more_likely);
}

void select_at_least(std::span<const float> logits, std::span<const float> block_max, double threshold,
                     std::vector<Candidate>& out) {
  out.clear();
  for (size_t block = 0; block < block_max.size(); ++block) {
    if (block_max[block] < threshold) continue;
    const size_t end = std::min((block + 1) * kScanBlock, logits.size());
    for (size_t i = block * kScanBlock; i < end; ++i) {
      if (logits[i] >= threshold && logits[i] > kNothing)
        out.push_back({TokenId{static_cast<int32_t>(i)}, logits[i], 0});
    }
  }
}

}  // namespace cairn::sampling
