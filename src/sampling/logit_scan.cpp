#include "sampling/logit_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>

namespace cairn {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// e^kLeast is below the smallest normal float: exp_above_least gives 0.
constexpr float kLeast = -90.0f;

// e^x for kLeast <= x <= 0 in float, written so that compilers vectorise a loop over it: no calls, and no selection
// between floats, which they would turn into branches. x = n ln2 + r with |r| <= ln2 / 2, then the Taylor polynomial of
// degree 7 (error r^8 / 8! < 6e-9). Results that would be subnormal are 0.
inline float exp_above_least(float x) {
  constexpr float kShift = 12582912.0f;     // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
  constexpr float kLn2High = 0.693145752f;  // 16 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-6f;  // ln2 - kLn2High
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float power = 1.0f / 5040.0f;
  power = power * r + 1.0f / 720.0f;
  power = power * r + 1.0f / 120.0f;
  power = power * r + 1.0f / 24.0f;
  power = power * r + 1.0f / 6.0f;
  power = power * r + 0.5f;
  power = power * r + 1.0f;
  power = power * r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kShift) + 127;
  return power * std::bit_cast<float>((exponent > 0 ? exponent : 0) << 23);
}

// Weights of one block. Two loops, as one would not be vectorised.
void weigh(const float* logits, size_t count, float largest, float temperature, float* weights) {
  for (size_t i = 0; i < count; ++i) {
    const float x = (logits[i] - largest) / temperature;
    weights[i] = x > kLeast ? x : kLeast;
  }
  for (size_t i = 0; i < count; ++i) weights[i] = exp_above_least(weights[i]);
}

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
  constexpr size_t kLanes = 16;  // independent maxima, so that the loop over them becomes vector instructions
  block_max.resize(scan_blocks(logits.size()));
  float largest = kNothing;
  for (size_t block = 0; block < block_max.size(); ++block) {
    const size_t begin = block * kScanBlock;
    const size_t end = std::min(begin + kScanBlock, logits.size());
    std::array<float, kLanes> lanes;
    lanes.fill(kNothing);
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
      }
    }
    for (; i < end; ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
    block_max[block] = *std::max_element(lanes.begin(), lanes.end());
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
  constexpr size_t kLanes = 4;
  weights.resize(logits.size());
  block_sum.resize(scan_blocks(logits.size()));
  double total = 0;
  for (size_t block = 0; block < block_sum.size(); ++block) {
    const size_t begin = block * kScanBlock;
    const size_t end = std::min(begin + kScanBlock, logits.size());
    weigh(&logits[begin], end - begin, largest, temperature, &weights[begin]);
    std::array<double, kLanes> lanes{};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
    }
    for (; i < end; ++i) lanes[0] += weights[i];
    block_sum[block] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    total += block_sum[block];
  }
  return total;
}

void select_top_k(std::span<const float> logits, std::span<const float> block_max, size_t k,
                  std::vector<Candidate>& out) {
  out.clear();
  if (k == 0) return;
  // Candidates gather to twice k and are cut back to the k best; the worst of those is what the rest must beat. Equal
  // logits further on lose to the lower ids that are in already, so that beating is strict.
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

}  // namespace cairn
