#include "kernels/cpu/rows/deepseek41_op.h"

#include <algorithm>
#include <cmath>

#include "kernels/simulated_rounding.h"

namespace cairn::cpu {
namespace {

// Approximate nanoseconds; only used to choose the size of chunks.
constexpr double kGateNs = 2.0;
constexpr double kNumberNs = 3.0;

struct RoundingForm {
  SimulatedFormat format;
  bool e4m3_scale = false;
};

constexpr RoundingForm form_of(SimulatedRounding rounding) {
  SimulatedFormat fp8 = kSimulatedE4m3;
  fp8.block = 32;
  SimulatedFormat fp4 = kSimulatedE2m1;
  switch (rounding) {
    case SimulatedRounding::kFp8Blocks32:
      return {fp8};
    case SimulatedRounding::kFp4Blocks32:
      return {fp4};
    case SimulatedRounding::kFp4Blocks16:
      fp4.block = 16;
      fp4.least = 6 * 0x1p-9F;  // of the smallest scale
      return {fp4, true};
  }
  return {fp8};
}

void round_numbers(const RoundingForm& form, float* x, int32_t n) {
  float largest = 0;
  for (int32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = form.e4m3_scale
                          ? simulated_rounded(kSimulatedE4m3, 1, std::max(largest, form.format.least) / form.format.top)
                          : simulated_scale(form.format, largest);
  for (int32_t i = 0; i < n; ++i) x[i] = simulated_rounded(form.format, scale, x[i]);
}

// In double, so that the order of sums does not matter much; it is fixed all the same.
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
  team_.run_items(rows * streams, kGateNs * static_cast<double>(cols), 1, [&](int64_t begin, int64_t end, int) {
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
  const RoundingForm form = form_of(rounding);
  team_.run_items(rows, kNumberNs * dims, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int32_t i = 0; i < dims; i += form.format.block) {
        round_numbers(form, x + r * dims + i, std::min(form.format.block, dims - i));
      }
    }
  });
}

}  // namespace cairn::cpu
