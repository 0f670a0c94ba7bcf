#include "kernels/cpu/rows/deepseek41_op.h"

#include <algorithm>
#include <cmath>

#include "kernels/simulated_rounding.h"

namespace cairn::kernels::cpu {
namespace {

// Approximate nanoseconds; only used to choose the size of chunks.
constexpr double kGatedElementNs = 2.0;
constexpr double kNumberNs = 3.0;

void round_numbers(const BlockRounding& rounding, float* x, int32_t n) {
  float largest = 0;
  for (int32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = block_scale(rounding, largest);
  for (int32_t i = 0; i < n; ++i) x[i] = simulated_rounded(rounding.numbers, scale, x[i]);
}

// The gate is computed in double, so that the order of sums does not matter much; it is fixed all the same.
float engram_gate(const EngramParams& params, const float* x, const float* key, int64_t stream, int64_t cols) {
  constexpr double kLeast = 1e-6;
  const float* query_norm = params.query_norm + stream * cols;
  const float* key_norm = params.key_norm + stream * cols;
  double product = 0, queries = 0, keys = 0;
  for (int64_t i = 0; i < cols; ++i) {
    const double q = x[i], k = key[i];
    product += q * query_norm[i] * k * key_norm[i];
    queries += q * q;
    keys += k * k;
  }
  const auto n = static_cast<double>(cols);
  const double epsilon = params.epsilon;
  const double d = product / std::sqrt((queries / n + epsilon) * (keys / n + epsilon)) / std::sqrt(n);
  const double root = std::sqrt(std::max(std::fabs(d), kLeast));
  return static_cast<float>(1 / (1 + std::exp(d > 0 ? -root : (d < 0 ? root : 0.0))));
}

}  // namespace

void Deepseek41Op::add_engram(const EngramParams& params, const float* keys_value, int64_t rows, int64_t cols,
                              float* x) {
  const int64_t streams = params.streams;
  team_.run_items(rows * streams, kGatedElementNs * static_cast<double>(cols), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* own = keys_value + i / streams * (streams + 1) * cols;
      const int64_t stream = i % streams;
      const float* value = own + streams * cols;
      float* to = x + i * cols;
      const float gate = engram_gate(params, to, own + stream * cols, stream, cols);
      for (int64_t c = 0; c < cols; ++c) to[c] += gate * value[c];
    }
  });
}

void Deepseek41Op::round_rows(SimulatedRounding rounding, float* x, int64_t rows, int32_t dims) {
  const BlockRounding blocks = block_rounding(rounding);
  const int32_t block = blocks.numbers.block;
  team_.run_items(rows, kNumberNs * dims, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int32_t i = 0; i < dims; i += block) {
        round_numbers(blocks, x + r * dims + i, std::min(block, dims - i));
      }
    }
  });
}

}  // namespace cairn::kernels::cpu
