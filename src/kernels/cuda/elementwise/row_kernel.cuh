/// Operations on whole rows: a short row has a warp, a longer one a block, depending on the number of columns alone.
///
/// Columns go to threads four at a time in turn. A thread loads all of its columns before it uses the first, and keeps
/// them in registers, so that a row costs the latency of memory once; only rows that are very long or not aligned are
/// read again for each use. Each thread adds its own columns in ascending order, then the threads' sums are added
/// (reduce.cuh), both in float32: the sums are short.
#pragma once

#include "base/check.h"
#include "kernels/cuda/elementwise/four_columns.cuh"
#include "kernels/cuda/elementwise/reduce.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kRowBlock = 256;          // threads of a block whose warps have a row each
inline constexpr int64_t kWarpColumns = 1024;  // a row of up to this many columns has a warp
inline constexpr int64_t kRowColumnsMax = int64_t{1} << 30;

/// The part of a row that a thread has of it. kThreads threads share the row, each with up to kFours times four
/// columns, which it keeps in registers; with kFours = 0 there may be any number, and none is kept.
template <int kThreadCount, int kFourCount, bool kIsAligned>
class RowPart {
 public:
  static constexpr int kThreads = kThreadCount;
  static constexpr int kFours = kFourCount;
  static constexpr bool kAligned = kIsAligned;
  /// How many fours of two arrays are loaded at once.
  static constexpr int kChunk = kFours == 0 ? 1 : (kFours > 4 ? 2 : kFours);
  /// Whether there are registers for a second array.
  static constexpr bool kTwoArrays = kFours > 0 && kFours <= 4;

  __device__ RowPart(int64_t rows, int32_t cols)
      : cols_(cols),
        row_(int64_t{blockIdx.x} * (blockDim.x / kThreads) + threadIdx.x / kThreads),
        has_row_(row_ < rows),
        first_(4 * static_cast<int32_t>(threadIdx.x % kThreads)) {}

  /// Waits for the kernels before; false for threads without a row, which are whole warps.
  __device__ bool begin() const {
    trigger_dependents();
    wait_for_dependencies();
    return has_row_;
  }
  __device__ int64_t row() const { return row_; }
  __device__ int32_t cols() const { return cols_; }
  __device__ bool is_first() const { return first_ == 0; }
  /// The first column of four number i.
  __device__ int32_t column(int i) const { return first_ + 4 * kThreads * i; }
  __device__ bool has(int i) const { return column(i) < cols_; }
  /// How many columns four number i has, if it has any.
  __device__ int count(int i) const { return kAligned ? 4 : min(4, cols_ - column(i)); }

  /// Four number i of the row that begins at x, followed by zeros.
  __device__ Four load(const float* x, int i) const {
    return has(i) ? load_four<kAligned>(x + column(i), cols_ - column(i)) : Four{};
  }
  /// Four number i of the row that begins at x, or ones if x is null.
  __device__ Four load_or_ones(const float* x, int i) const { return x == nullptr ? Four{{1, 1, 1, 1}} : load(x, i); }
  __device__ void store(const Four& four, float* x, int i) const {
    store_four<kAligned>(four, cols_ - column(i), x + column(i));
  }
  /// Calls f(i) for each of the thread's fours below `cols`.
  template <class F>
  __device__ void for_fours(int32_t cols, F f) const {
    if constexpr (kFours == 0) {
      for (int i = 0; column(i) < cols; ++i) f(i);
    } else {
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        if (column(i) < cols) f(i);
      }
    }
  }
  template <class F>
  __device__ void for_fours(F f) const {
    for_fours(cols_, f);
  }
  /// Calls f(i) with the first number of every kChunk fours.
  template <class F>
  __device__ void for_chunks(F f) const {
    if constexpr (kFours == 0) {
      for_fours(f);
    } else {
#pragma unroll
      for (int i = 0; i < kFours; i += kChunk) f(i);
    }
  }

 private:
  const int32_t cols_;
  const int64_t row_;
  const bool has_row_;
  const int32_t first_;
};

/// The thread's columns of a row in memory: kept in registers, or loaded whenever they are read.
template <class Part>
class RowValues {
 public:
  /// Has no values so far.
  __device__ RowValues() {}
  /// Loads the thread's columns of the row.
  __device__ RowValues(const Part& part, const float* row) : row_(row) {
    if constexpr (Part::kFours > 0) {
#pragma unroll
      for (int i = 0; i < Part::kFours; ++i) fours_[i] = part.load(row, i);
    }
  }
  __device__ Four get(const Part& part, int i) const {
    if constexpr (Part::kFours > 0) return fours_[i];
    return part.load(row_, i);
  }
  /// Changes four number i and stores it; all others must be stored at `to` too before get() is called.
  __device__ void store(const Part& part, const Four& four, float* to, int i) {
    if constexpr (Part::kFours > 0) fours_[i] = four;
    part.store(four, to, i);
  }
  /// Says where all were stored.
  __device__ void stored_at(const float* row) { row_ = row; }

 private:
  const float* row_ = nullptr;
  Four fours_[Part::kFours > 0 ? Part::kFours : 1] = {};
};

template <int kThreads>
inline constexpr int kThreadsOfBlock = kThreads == kWarp ? kRowBlock : kThreads;

template <class Part, class Operation>
__global__ void __launch_bounds__(kThreadsOfBlock<Part::kThreads>)
    row_kernel(Operation operation, int64_t rows, int32_t cols) {
  operation(Part(rows, cols));
}

/// Calls operation(part) with the threads of each row, which begins by part.begin(). `kFoursMax` is the maximum number
/// of fours of a row's 1024 threads for which the operation has registers.
template <int kFoursMax = 4, class Operation>
void for_rows(LaunchQueue& stream, const Operation& operation, int64_t rows, int64_t cols, bool aligned) {
  CAIRN_DCHECK(rows <= INT32_MAX && cols <= kRowColumnsMax);
  if (rows == 0) return;
  const auto start = [&]<int kThreads, int kFours>() {
    const auto kernel = aligned ? row_kernel<RowPart<kThreads, kFours, true>, Operation>
                                : row_kernel<RowPart<kThreads, 0, false>, Operation>;
    constexpr int kBlock = kThreadsOfBlock<kThreads>;
    launch_dependent(kernel, dim3(blocks_of(rows, kBlock / kThreads, INT32_MAX)), kBlock, 0, stream, operation, rows,
                     static_cast<int32_t>(cols));
  };
  if (cols <= 128) return start.template operator()<kWarp, 1>();
  if (cols <= 512) return start.template operator()<kWarp, 4>();
  if (cols <= kWarpColumns) return start.template operator()<kWarp, 8>();
  if (cols <= 2048) return start.template operator()<256, 2>();
  if (cols <= 4096) return start.template operator()<512, 2>();
  if (cols <= 8192) return start.template operator()<1024, 2>();
  if (cols <= 16384) return start.template operator()<1024, 4>();
  if constexpr (kFoursMax >= 8) {
    if (cols <= 32768) return start.template operator()<1024, 8>();
  }
  start.template operator()<1024, 0>();
}

}  // namespace cairn::kernels::cuda
