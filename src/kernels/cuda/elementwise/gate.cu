// Gating of a feed-forward network's inner activations, with or without the rounding for the product that follows.
#include <span>

#include "base/check.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/global_memory.cuh"
#include "kernels/cuda/elementwise/map.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matmul/round_inputs.cuh"

namespace cairn::kernels::cuda {
namespace {

template <Activation kActivation>
struct Gate {
  __device__ float operator()(float x, float up) const {
    if constexpr (kActivation == Activation::kClampedSwiglu) {
      return clamped_swiglu(x, up);
    } else {
      return __fmul_rn(activate<kActivation>(x), up);
    }
  }
};

template <Activation kActivation>
struct GateRows {
  const float* x;
  const float* up;  // or null
  float* out;
  HalfRows halves;

  // Gates the columns of a part, which begin at element `before` of the arrays; the largest magnitude of the thread's.
  template <class Part>
  __device__ float columns(const Part& part, int64_t before, RowValues<Part>& values) const {
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
    return largest;
  }

  template <class Part>
  __device__ void operator()(const Part& part) const {
    if (!part.begin()) return;
    RowValues<Part> values;
    const float largest = columns(part, part.row() * part.cols(), values);
    round_row(part, values, largest, halves);
  }
};

// Long rows are divided among blocks, since one multiprocessor alone takes long for so many exponentials. A block
// rounds its columns as if the row needed no scale; if it does, the last block of the row rounds all columns again.
constexpr int kSliceThreads = 256;
constexpr int32_t kSliceColumns = 4 * kSliceThreads;
constexpr int64_t kSlicedMin = 2 * kSliceColumns + 1;  // columns of a row that is divided
constexpr int64_t kSlicedMax = 1024 * kSliceColumns;
constexpr int32_t kBeyond = 1 << 16;  // what a slice beyond float16 adds to its row's ticket

// Whether the block is the last of its row and some slice of the row is beyond float16. Called after a barrier.
__device__ bool must_round_again(bool is_beyond, int32_t* tickets) {
  __shared__ bool again;
  if (threadIdx.x == 0) {
    const int32_t own = is_beyond ? kBeyond + 1 : 1;
    const int32_t all = take_ticket(tickets + blockIdx.x, own) + own;
    const bool is_last = all % kBeyond == static_cast<int32_t>(gridDim.y);
    again = is_last && all >= kBeyond;
    if (is_last) tickets[blockIdx.x] = 0;
  }
  __syncthreads();
  return again;
}

template <Activation kActivation>
__global__ void __launch_bounds__(kSliceThreads)
    gate_slices_kernel(GateRows<kActivation> rows, int32_t cols, int32_t* tickets) {
  const auto begin = static_cast<int32_t>(blockIdx.y) * kSliceColumns;
  const RowPart<kSliceThreads, 1, true> slice(gridDim.x, min(kSliceColumns, cols - begin));
  slice.begin();
  RowValues<RowPart<kSliceThreads, 1, true>> values;
  const float largest = rows.columns(slice, slice.row() * cols + begin, values);
  const HalfRows& halves = rows.halves;
  store_halves(slice, values, 1, halves.bfloat, halves.values + slice.row() * padded_columns(cols) + begin);
  if (begin == 0 && slice.is_first()) halves.scales[slice.row()] = 1;
  if (halves.bfloat) return;
  // A barrier, after which all threads of the block have stored.
  const bool is_beyond = row_largest<kSliceThreads>(largest) > kLargestHalf;
  if (!must_round_again(is_beyond, tickets)) return;
  const RowPart<kSliceThreads, 0, true> row(gridDim.x, cols);
  const RowValues<RowPart<kSliceThreads, 0, true>> all(row, rows.out + row.row() * cols);
  round_row<1>(row, all, largest_of(row, all), halves);
}

}  // namespace

void gate(LaunchQueue& stream, Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
          float* out, const HalfRows& halves, std::span<int32_t> tickets) {
  CAIRN_DCHECK(cols <= kRowColumnsMax);
  const bool aligned = columns_aligned(cols, gate, up, out);
  visit_activation(activation, [&]<Activation kActivation>() {
    if (halves.values == nullptr) return map(stream, Gate<kActivation>(), gate, up, rows * cols, out);
    const GateRows<kActivation> operation{gate, up, out, halves};
    const bool sliced = aligned && cols >= kSlicedMin && cols <= kSlicedMax && rows > 0 && rows <= std::ssize(tickets);
    if (!sliced) return for_rows(stream, operation, rows, cols, aligned);
    const dim3 grid(static_cast<unsigned>(rows), blocks_of(cols, kSliceColumns, kGridMax));
    launch_dependent(gate_slices_kernel<kActivation>, grid, kSliceThreads, 0, stream, operation,
                     static_cast<int32_t>(cols), tickets.data());
  });
}

}  // namespace cairn::kernels::cuda
