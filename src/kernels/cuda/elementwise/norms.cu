// Norms, and other operations that need a sum over a row.
#include "base/check.h"
#include "kernels/cuda/elementwise/row_kernel.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matmul/round_inputs.cuh"

namespace cairn::kernels::cuda {
namespace {

float share_of(int64_t cols) { return 1.0f / static_cast<float>(cols); }

struct RmsNorm {
  float* x;
  const float* added;  // or null
  float added_scale;
  const float* weight;  // or null
  float epsilon;
  float share;  // of a column
  float* out;
  HalfRows halves;  // values null: not written

  template <class Part>
  __device__ void operator()(const Part& part) const {
    Four weights[Part::kTwoArrays ? Part::kFours : 1] = {};
    if constexpr (Part::kTwoArrays) {
#pragma unroll
      for (int i = 0; i < Part::kFours; ++i) weights[i] = part.load_or_ones(weight, i);
    }
    const auto weights_of = [&](int i) { return Part::kTwoArrays ? weights[i] : part.load_or_ones(weight, i); };
    if (!part.begin()) return;
    float* const from = x + part.row() * part.cols();
    RowValues<Part> values(part, from);
    if (added != nullptr) add(part, values, from);

    // The largest magnitude before the division by the root, whose rounding it does not have yet.
    SumAndLargest row{0, 0};
    part.for_fours([&](int i) {
      const Four four = values.get(part, i), by = weights_of(i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        row.sum = __fmaf_rn(four.at[k], four.at[k], row.sum);
        row.largest = fmaxf(row.largest, fabsf(__fmul_rn(four.at[k], by.at[k])));
      }
    });
    row = row_sum_and_largest<Part::kThreads>(row);
    const float factor = __frsqrt_rn(__fadd_rn(__fmul_rn(row.sum, share), epsilon));
    float* const to = out + part.row() * part.cols();
    part.for_fours([&](int i) {
      Four four = values.get(part, i);
      const Four by = weights_of(i);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] = __fmul_rn(__fmul_rn(four.at[k], factor), by.at[k]);
      values.store(part, four, to, i);
    });
    values.stored_at(to);
    if (halves.values == nullptr) return;
    // Far below the limit no rounding matters, and the row needs no second maximum.
    if (halves.bfloat || __fmul_rn(row.largest, factor) < kLargestHalf / 2)
      return store_halves(part, values, 1, halves);
    round_row(part, values, largest_of(part, values), halves);
  }

 private:
  template <class Part>
  __device__ void add(const Part& part, RowValues<Part>& values, float* from) const {
    const float* const others = added + part.row() * part.cols();
    part.for_chunks([&](int begin) {
      Four other[Part::kChunk];
#pragma unroll
      for (int j = 0; j < Part::kChunk; ++j) other[j] = part.load(others, begin + j);
#pragma unroll
      for (int j = 0; j < Part::kChunk; ++j) {
        const int i = begin + j;
        if (!part.has(i)) continue;
        Four four = values.get(part, i);
#pragma unroll
        for (int k = 0; k < 4; ++k) four.at[k] = __fmaf_rn(added_scale, other[j].at[k], four.at[k]);
        values.store(part, four, from, i);
      }
    });
  }
};

struct LayerNorm {
  const float* x;
  const float* weight;  // [heads, cols]
  int32_t heads;        // row r has weight row r % heads
  const float* bias;    // or null
  float epsilon;
  float share;  // of a column
  float* out;

  template <class Part>
  __device__ void operator()(const Part& part) const {
    const RowValues<Part> weights(part, weight + part.row() % heads * part.cols());
    if (!part.begin()) return;
    const RowValues<Part> values(part, x + part.row() * part.cols());
    float sum = 0;
    part.for_fours([&](int i) {
      const Four four = values.get(part, i);
#pragma unroll
      for (const float value : four.at) sum = __fadd_rn(sum, value);
    });
    const float mean = __fmul_rn(row_sum<Part::kThreads, 0>(sum), share);
    float squares = 0;
    part.for_fours([&](int i) {
      const Four four = values.get(part, i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float apart = __fsub_rn(four.at[k], mean);
        if (k < part.count(i)) squares = __fmaf_rn(apart, apart, squares);
      }
    });
    squares = row_sum<Part::kThreads, 1>(squares);
    const float factor = __frsqrt_rn(__fadd_rn(__fmul_rn(squares, share), epsilon));
    float* const to = out + part.row() * part.cols();
    part.for_fours([&](int i) {
      Four four = values.get(part, i);
      const Four by = weights.get(part, i);
      Four plus{};
      if (bias != nullptr) plus = part.load(bias, i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        four.at[k] = __fmul_rn(__fmul_rn(__fsub_rn(four.at[k], mean), factor), by.at[k]);
        if (bias != nullptr) four.at[k] = __fadd_rn(four.at[k], plus.at[k]);
      }
      part.store(four, to, i);
    });
  }
};

struct Steer {
  float* x;
  const float* direction;
  float scale;

  template <class Part>
  __device__ void operator()(const Part& part) const {
    if (!part.begin()) return;
    float* const row = x + part.row() * part.cols();
    const RowValues<Part> values(part, row), directions(part, direction);
    float dot = 0;
    part.for_fours([&](int i) {
      const Four four = values.get(part, i), along = directions.get(part, i);
#pragma unroll
      for (int k = 0; k < 4; ++k) dot = __fmaf_rn(four.at[k], along.at[k], dot);
    });
    const float factor = -__fmul_rn(scale, row_sum<Part::kThreads>(dot));
    part.for_fours([&](int i) {
      Four four = values.get(part, i);
      const Four along = directions.get(part, i);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] = __fmaf_rn(factor, along.at[k], four.at[k]);
      part.store(four, row, i);
    });
  }
};

}  // namespace

void rms_norm(LaunchQueue& stream, const RmsNormParams& params, int64_t rows, int64_t cols) {
  const auto& [x, added, added_scale, weight, epsilon, out, halves] = params;
  for_rows(stream, RmsNorm{x, added, added_scale, weight, epsilon, share_of(cols), out, halves}, rows, cols,
           columns_aligned(cols, x, added, weight, out));
}

void layer_norm(LaunchQueue& stream, const float* x, const float* weight, int32_t heads, const float* bias,
                float epsilon, int64_t rows, int64_t cols, float* out) {
  CAIRN_DCHECK(weight != nullptr && heads > 0);
  for_rows(stream, LayerNorm{x, weight, heads, bias, epsilon, share_of(cols), out}, rows, cols,
           columns_aligned(cols, x, weight, bias, out));
}

void steer(LaunchQueue& stream, float* x, const float* direction, float scale, int64_t rows, int64_t cols) {
  for_rows(stream, Steer{x, direction, scale}, rows, cols, columns_aligned(cols, x, direction));
}

}  // namespace cairn::kernels::cuda
