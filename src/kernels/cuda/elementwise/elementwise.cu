/// Element-wise operations: activations, sums and products of arrays, and copied or weighted rows.
#include "base/check.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/columns.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matmul/round_inputs.cuh"

namespace cairn::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kBlocksMax = 4096;  // most blocks of map_kernel, which loops over the rest

__device__ int64_t thread_number() { return int64_t{blockIdx.x} * kBlock + threadIdx.x; }

// out[i] = f(x[i], y[i]), where a null y means ones.
template <bool kAligned, class F>
__global__ void __launch_bounds__(kBlock) map_kernel(F f, const float* x, const float* y, int64_t n, float* out) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t step = int64_t{gridDim.x} * kBlock * 4;
  for (int64_t i = 4 * thread_number(); i < n; i += step) {
    const Four a = load_four<kAligned>(x + i, n - i);
    Four b{{1, 1, 1, 1}};
    if (y != nullptr) b = load_four<kAligned>(y + i, n - i);
    Four result;
#pragma unroll
    for (int k = 0; k < 4; ++k) result.at[k] = f(a.at[k], b.at[k]);
    store_four<kAligned>(result, n - i, out + i);
  }
}

template <class F>
void map(LaunchQueue& stream, const F& f, const float* x, const float* y, int64_t n, float* out) {
  if (n == 0) return;
  const auto kernel = columns_aligned(n, x, y, out) ? map_kernel<true, F> : map_kernel<false, F>;
  launch_dependent(kernel, dim3(blocks_of(n, kBlock * 4, kBlocksMax)), kBlock, 0, stream, f, x, y, n, out);
}

template <Activation kActivation>
struct Gate {
  __device__ float operator()(float x, float up) const { return __fmul_rn(activate<kActivation>(x), up); }
};
// Gating that also writes the rounded result.
template <Activation kActivation>
struct GateRows {
  const float* x;
  const float* up;  // or null
  float* out;
  HalfRows halves;

  template <class Part>
  __device__ void operator()(const Part& part) const {
    if (!part.begin()) return;
    const int64_t before = part.row() * part.cols();
    RowValues<Part> values;
    float largest = 0;
    part.for_chunks([&](int begin) {
      Four in[Part::kChunk], by[Part::kChunk];
#pragma unroll
      for (int j = 0; j < Part::kChunk; ++j) in[j] = part.load(x + before, begin + j);
#pragma unroll
      for (int j = 0; j < Part::kChunk; ++j) {
        by[j] = part.load_or_ones(up == nullptr ? nullptr : up + before, begin + j);
      }
#pragma unroll
      for (int j = 0; j < Part::kChunk; ++j) {
        if (!part.has(begin + j)) continue;
        Four four;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          four.at[k] = Gate<kActivation>()(in[j].at[k], by[j].at[k]);
          largest = fmaxf(largest, fabsf(four.at[k]));
        }
        values.store(part, four, out + before, begin + j);
      }
    });
    values.stored_at(out + before);
    round_row(part, values, largest, halves);
  }
};
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

void gate(LaunchQueue& stream, Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
          float* out, const HalfRows& halves) {
  visit_activation(activation, [&]<Activation kActivation>() {
    if (halves.values == nullptr) return map(stream, Gate<kActivation>(), gate, up, rows * cols, out);
    for_rows<8>(stream, GateRows<kActivation>{gate, up, out, halves}, rows, cols, columns_aligned(cols, gate, up, out));
  });
}

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

}  // namespace cairn::cuda
