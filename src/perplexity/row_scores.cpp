#include "perplexity/row_scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sampling/block_loops.h"
#include "sampling/logit_scan.h"

namespace cairn::perplexity {
namespace {

// Entries processed at a time: their intermediate results stay in the first-level cache.
constexpr size_t kBlockLogits = 256;
// Independent sums, so that the loop over them becomes vector instructions.
constexpr size_t kLanes = 8;
// Log-probabilities of a base below this count as 0.
constexpr float kLeastCounted = -16.0f;

// The divergence of n <= kBlockLogits entries: the sum of p * (log p - log q) with log q = (logit - largest) - log_sum.
double divergence_of(const float* log_p, const float* p, const float* logits, size_t n, const LogSum& sum) {
  const auto log_sum = static_cast<float>(sum.log_sum);
  float terms[kBlockLogits];
  for (size_t i = 0; i < n; ++i) {
    const float difference = (log_p[i] + log_sum) - (logits[i] - sum.largest);
    terms[i] = log_p[i] > kLeastCounted ? p[i] * difference : 0.0f;
  }
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += terms[i + lane];
  }
  for (; i < n; ++i) lanes[0] += terms[i];
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

}  // namespace

LogSum log_sum(std::span<const float> logits) {
  const sampling::BlockLoops& loops = sampling::usable_block_loops().front();
  LogSum result{.largest = loops.largest(logits.data(), logits.size())};
  double total = 0;
  float weights[kBlockLogits];
  for (size_t begin = 0; begin < logits.size(); begin += kBlockLogits) {
    const size_t n = std::min(kBlockLogits, logits.size() - begin);
    total += loops.weigh(logits.data() + begin, n, result.largest, 1.0f, weights);
  }
  result.log_sum = std::log(total);
  return result;
}

double PositionScore::probability_change() const { return std::exp(-nll) - std::exp(-base_nll); }

double negative_log_probability(std::span<const float> logits, const LogSum& sum, TokenId token) {
  const double below = static_cast<double>(sum.largest) - logits[static_cast<size_t>(index(token))];
  return below + sum.log_sum;
}

void compare_row(std::span<const float> logits, const LogSum& sum, const LogitsRecord& base, TokenId token,
                 std::vector<float>& block_max, PositionScore& score) {
  const sampling::BlockLoops& loops = sampling::usable_block_loops().front();
  uint16_t codes[kBlockLogits];
  float log_p[kBlockLogits];
  float p[kBlockLogits];
  double divergence = 0;
  int largest_code = -1;
  size_t largest_at = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlockLogits) {
    const size_t n = std::min(kBlockLogits, logits.size() - begin);
    std::memcpy(codes, base.codes.data() + begin * sizeof(uint16_t), n * sizeof(uint16_t));
    for (size_t i = 0; i < n; ++i) log_p[i] = base.least + base.scale * static_cast<float>(codes[i]);
    loops.weigh(log_p, n, 0.0f, 1.0f, p);
    divergence += divergence_of(log_p, p, logits.data() + begin, n, sum);
    const uint16_t* const most = std::ranges::max_element(codes, codes + n);
    if (*most > largest_code) {
      largest_code = *most;
      largest_at = begin + static_cast<size_t>(most - codes);
    }
  }
  score.base_nll = -static_cast<double>(base.log_probability(index(token)));
  score.divergence = divergence;
  const float largest = sampling::scan_maxima(logits, block_max);
  score.same_first = index(sampling::scan_first(logits, block_max, largest)) == static_cast<int32_t>(largest_at);
}

}  // namespace cairn::perplexity
