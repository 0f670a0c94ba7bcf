/// Element-wise operations: sums and products of arrays, and copied or weighted rows.
#include "base/check.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/columns.cuh"
#include "kernels/cuda/elementwise/map.cuh"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {
namespace {

struct AddScaled {
  float scale;
  __device__ float operator()(float x, float y) const { return __fmaf_rn(scale, y, x); }
};
struct ScaleAndCap {
  float scale;
  float cap;
  __device__ float operator()(float x, float) const {
    x = __fmul_rn(x, scale);
    return cap > 0 ? __fmul_rn(tanhf(x / cap), cap) : x;
  }
};
struct Clamp {
  float least;
  float most;
  __device__ float operator()(float x, float) const {
    x = x < least ? least : x;
    return x > most ? most : x;
  }
};

template <bool kAligned>
struct ScaleRows {
  float* x;
  const float* factors;
  bool of_sigmoid;
  int64_t cols;
  __device__ void operator()(int64_t row, int64_t column, int64_t count) const {
    const float factor = of_sigmoid ? sigmoid(factors[row]) : factors[row];
    float* at = x + row * cols + column;
    Four four = load_four<kAligned>(at, count);
#pragma unroll
    for (float& value : four.at) value = __fmul_rn(value, factor);
    store_four<kAligned>(four, count, at);
  }
};

// Copies row numbers[row] of `from` to row `row` of `to`; without numbers, row `row`.
template <bool kAligned>
struct CopyRows {
  const float* from;
  int64_t from_stride;
  const int32_t* numbers;
  float* to;
  int64_t to_stride;
  __device__ void operator()(int64_t row, int64_t column, int64_t count) const {
    const int64_t number = numbers == nullptr ? row : numbers[row];
    store_four<kAligned>(load_four<kAligned>(from + number * from_stride + column, count), count,
                         to + row * to_stride + column);
  }
};

// Row `row` becomes the weighted sum of `used` rows of y, with the row's weights in the same order.
template <bool kAligned>
struct WeightedSums {
  const float* y;
  const float* weights;
  int32_t weights_stride;
  int32_t used;
  int64_t cols;
  float* out;
  __device__ void operator()(int64_t row, int64_t column, int64_t count) const {
    Four sum{};
    for (int32_t j = 0; j < used; ++j) {
      const float weight = weights[row * weights_stride + j];
      const Four value = load_four<kAligned>(y + (row * used + j) * cols + column, count);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum.at[k] = __fmaf_rn(weight, value.at[k], sum.at[k]);
    }
    store_four<kAligned>(sum, count, out + row * cols + column);
  }
};

void scale_rows_by(LaunchQueue& stream, float* x, const float* factors, bool of_sigmoid, int64_t rows, int64_t cols) {
  if (columns_aligned(cols, x)) {
    for_columns(stream, ScaleRows<true>{x, factors, of_sigmoid, cols}, rows, cols);
  } else {
    for_columns(stream, ScaleRows<false>{x, factors, of_sigmoid, cols}, rows, cols);
  }
}

void copy_rows(LaunchQueue& stream, const float* from, int64_t from_stride, const int32_t* numbers, float* to,
               int64_t to_stride, int64_t rows, int64_t cols) {
  if (columns_aligned(cols | from_stride | to_stride, from, to)) {
    for_columns(stream, CopyRows<true>{from, from_stride, numbers, to, to_stride}, rows, cols);
  } else {
    for_columns(stream, CopyRows<false>{from, from_stride, numbers, to, to_stride}, rows, cols);
  }
}

}  // namespace

void add(LaunchQueue& stream, float* x, const float* y, int64_t n, float scale) {
  map(stream, AddScaled{scale}, x, y, n, x);
}

void scale_rows(LaunchQueue& stream, float* x, const float* factors, int64_t rows, int64_t cols) {
  scale_rows_by(stream, x, factors, false, rows, cols);
}

void sigmoid_scale_rows(LaunchQueue& stream, float* x, const float* gates, int64_t rows, int64_t cols) {
  scale_rows_by(stream, x, gates, true, rows, cols);
}

void scale_and_softcap(LaunchQueue& stream, float* x, int64_t n, float scale, float cap) {
  map(stream, ScaleAndCap{scale, cap}, x, nullptr, n, x);
}

void clamp(LaunchQueue& stream, float* x, int64_t n, float least, float most) {
  map(stream, Clamp{least, most}, x, nullptr, n, x);
}

void gather_rows(LaunchQueue& stream, const float* x, const int32_t* numbers, int64_t count, int64_t cols, float* out) {
  copy_rows(stream, x, cols, numbers, out, cols, count, cols);
}

void copy_columns(LaunchQueue& stream, const float* from, int64_t from_stride, float* to, int64_t to_stride,
                  int64_t rows, int64_t cols) {
  copy_rows(stream, from, from_stride, nullptr, to, to_stride, rows, cols);
}

void weighted_sums(LaunchQueue& stream, const float* y, const float* weights, int32_t weights_stride, int32_t used,
                   int64_t rows, int64_t cols, float* out) {
  if (columns_aligned(cols, y, out)) {
    for_columns(stream, WeightedSums<true>{y, weights, weights_stride, used, cols, out}, rows, cols);
  } else {
    for_columns(stream, WeightedSums<false>{y, weights, weights_stride, used, cols, out}, rows, cols);
  }
}

}  // namespace cairn::kernels::cuda
