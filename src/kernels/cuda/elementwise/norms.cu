// Norms, and other operations that need a sum over a row.
#include "base/check.h"
#include "kernels/cuda/elementwise/row_kernel.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matmul/round_inputs.cuh"

namespace cairn::cuda {
namespace {

struct RmsNorm {
  float* x;
  const float* added;  // or null
  float added_scale;
  const float* weight;
  float epsilon;
  float* out;
  HalfRows halves;  // values null: not written

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    using P = RowPart<kThreads>;
    float* from = x + row * cols;
    if (added != nullptr) {
      const float* y = added + row * cols;
      for (int64_t c = P().first; c < cols; c += P::kStep) {
        Four four = load_four<kAligned>(from + c, cols - c);
        const Four other = load_four<kAligned>(y + c, cols - c);
#pragma unroll
        for (int k = 0; k < 4; ++k) four.at[k] = __fmaf_rn(added_scale, other.at[k], four.at[k]);
        store_four<kAligned>(four, cols - c, from + c);
      }
    }
    const double sum = sum_of<kThreads, kAligned>(
        from, cols, [](float sum, float value, int64_t) { return __fmaf_rn(value, value, sum); });
    const double mean = sum / static_cast<double>(cols);
    const auto factor = static_cast<float>(1.0 / sqrt(mean + static_cast<double>(epsilon)));
    float* const to = out + row * cols;
    const float* w = weight;
    float largest = 0;
    map_row<kThreads, kAligned>(from, cols, to, [factor, w, &largest](float value, int64_t c) {
      value = __fmul_rn(value, factor);
      if (w != nullptr) value = __fmul_rn(value, w[c]);
      largest = fmaxf(largest, fabsf(value));
      return value;
    });
    if (halves.values != nullptr) round_row<kThreads, kAligned>(to, row, cols, largest, halves);
  }
};

struct LayerNorm {
  const float* x;
  const float* weight;
  const float* bias;
  float epsilon;
  float* out;

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    const float* from = x + row * cols;
    const auto count = static_cast<double>(cols);
    const auto mean = static_cast<float>(
        sum_of<kThreads, kAligned>(from, cols, [](float sum, float value, int64_t) { return __fadd_rn(sum, value); }) /
        count);
    const double squares = sum_of<kThreads, kAligned>(from, cols, [mean](float sum, float value, int64_t) {
      const float apart = __fsub_rn(value, mean);
      return __fmaf_rn(apart, apart, sum);
    });
    const auto factor = static_cast<float>(1.0 / sqrt(squares / count + static_cast<double>(epsilon)));
    const float* w = weight;
    const float* b = bias;
    map_row<kThreads, kAligned>(from, cols, out + row * cols, [mean, factor, w, b](float value, int64_t c) {
      value = __fmul_rn(__fmul_rn(__fsub_rn(value, mean), factor), w[c]);
      return b == nullptr ? value : __fadd_rn(value, b[c]);
    });
  }
};

struct Steer {
  float* x;
  const float* direction;
  float scale;

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    float* from = x + row * cols;
    const float* d = direction;
    const double dot = sum_of<kThreads, kAligned>(
        from, cols, [d](float sum, float value, int64_t c) { return __fmaf_rn(value, d[c], sum); });
    const auto factor = static_cast<float>(-static_cast<double>(scale) * dot);
    map_row<kThreads, kAligned>(from, cols, from,
                                [factor, d](float value, int64_t c) { return __fmaf_rn(factor, d[c], value); });
  }
};

}  // namespace

void rms_norm(LaunchQueue& stream, const RmsNormParams& params, int64_t rows, int64_t cols) {
  const auto& [x, added, added_scale, weight, epsilon, out, halves] = params;
  for_rows(stream, RmsNorm{x, added, added_scale, weight, epsilon, out, halves}, rows, cols,
           columns_aligned(cols, x, added, out));
}

void layer_norm(LaunchQueue& stream, const float* x, const float* weight, const float* bias, float epsilon,
                int64_t rows, int64_t cols, float* out) {
  CAIRN_DCHECK(weight != nullptr);
  for_rows(stream, LayerNorm{x, weight, bias, epsilon, out}, rows, cols, columns_aligned(cols, x, out));
}

void steer(LaunchQueue& stream, float* x, const float* direction, float scale, int64_t rows, int64_t cols) {
  for_rows(stream, Steer{x, direction, scale}, rows, cols, columns_aligned(cols, x));
}

}  // namespace cairn::cuda
