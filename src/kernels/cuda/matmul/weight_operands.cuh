/// Loads weights as operands of the tensor cores (mma_operands.cuh), from rows of 16-bit floats and from panels of
/// blocks alike: for GEMV a lane's part of 16 rows, for GEMM a thread's part of a stage in shared memory.
#pragma once

#include "kernels/cuda/matmul/mma_operands.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"

namespace cairn::cuda {

/// Rows of 16-bit floats, F being FormatF16 or FormatBF16.
template <class F, bool kWide>
struct RowWeights {
  static constexpr bool kBfloat = F::kType == TensorType::kBF16;
  static constexpr float kUnit = 1;
  /// Measured on an H100 (gemv.cuh): whether kPipelined is faster in small grids, steps that it loads ahead, and blocks
  /// of a multiprocessor without it.
  static constexpr bool kPipelines = false;
  static constexpr int kStepsAhead = 2;
  static constexpr int kBlocks = 3;

  /// A lane's part of rows [row_begin, row_begin + 16); rows beyond the last repeat it.
  class Lane {
   public:
    Lane() = default;
    __device__ __forceinline__ Lane(const Product& product, int32_t matrix, int32_t row_begin, int lane)
        : column_(lane % 4 * kHalfColumns), cols_(product.cols) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        rows_[r] = product.weight_row(matrix, min(row_begin + 8 * r + lane / 4, product.rows - 1));
    }
    /// The scales of a quad, of which `count` steps exist.
    struct Scales {};
    __device__ __forceinline__ Scales fetch_scales(int32_t, int32_t) const { return {}; }
    /// A step's columns of rows g and g + 8.
    struct Step {
      uint4 row, row_below;
    };
    __device__ __forceinline__ Step fetch(int32_t quad, int s) const {
      const int32_t column = (quad * kQuad + s) * kHalfStep + column_;
      return {load_halves<kWide>(rows_[0], column, cols_), load_halves<kWide>(rows_[1], column, cols_)};
    }
    /// Converts a step to the operands of multiply_step. Called by all lanes of a warp together.
    static __device__ __forceinline__ Step unpack(const Step& step, const Scales&, int) { return step; }

   private:
    const uint8_t* rows_[2] = {};
    int32_t column_ = 0;
    int32_t cols_ = 0;
  };

  /// A stage's kRows rows from `row_begin` on, loaded by kThreads threads.
  template <int kRows, int kThreads>
  class Stage {
   public:
    __device__ __forceinline__ Stage(const Product& product, int32_t matrix, int32_t row_begin) : cols_(product.cols) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        rows_[i] = product.weight_row(matrix, min(row_begin + row(i), product.rows - 1));
    }
    /// Starts loading a step; it has arrived when its copies are complete and finish() was called.
    __device__ __forceinline__ void begin(int32_t step, uint4 (*to)[kPieces]) {
      const int32_t column = step * kHalfStep + piece() * kHalfColumns;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        uint4* const there = &to[row(i)][piece()];
        if constexpr (!kWide) {
          *there = load_halves<false>(rows_[i], column, cols_);
        } else if (column < cols_) {
          __pipeline_memcpy_async(there, rows_[i] + static_cast<int64_t>(column) * 2, sizeof(uint4));
        } else {
          *there = {0, 0, 0, 0};
        }
      }
    }
    __device__ __forceinline__ void finish(uint4 (*)[kPieces]) {}

   private:
    static constexpr int kCopies = kRows * kPieces / kThreads;
    __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / kPieces + i * (kThreads / kPieces); }
    __device__ static int piece() { return static_cast<int>(threadIdx.x) % kPieces; }

    const uint8_t* rows_[kCopies];
    int32_t cols_;
  };
};

/// Weights in panels of blocks of a quantised type.
template <class F>
struct PanelWeights {
  static constexpr bool kBfloat = false;
  static constexpr float kUnit = 1 / kWeightUnits;
  static constexpr bool kPipelines = true;
  static constexpr int kStepsAhead = kQuad;
  static constexpr int kBlocks = 4;

  class Lane {
   public:
    Lane() = default;
    __device__ __forceinline__ Lane(const Product& product, int32_t matrix, int32_t row_begin, int lane)
        : panel_(product.panel_of(matrix, min(row_begin, product.rows - 1))),
          blocks_(product.row_blocks),
          lane_(lane) {}
    /// Scales of the two rows, for as many steps as four lanes dequantise together: each lane has one.
    struct Scales {
      HalfScales<F> row, row_below;
    };
    __device__ __forceinline__ Scales fetch_scales(int32_t quad, int32_t count) const {
      const int s = count == kQuad ? octet() : min(octet(), count - 1);
      return {HalfScales<F>::of(F::scales(place(quad, s, 0))), HalfScales<F>::of(F::scales(place(quad, s, 8)))};
    }
    struct Codes {
      Octet row, row_below;
    };
    __device__ __forceinline__ Codes fetch(int32_t quad, int s) const {
      return {F::codes(place(quad, s, 0), octet()), F::codes(place(quad, s, 8), octet())};
    }
    struct Step {
      uint4 row, row_below;
    };
    __device__ __forceinline__ Step unpack(const Codes& codes, const Scales& scales, int s) const {
      return {unpack(codes.row, scales.row, s), unpack(codes.row_below, scales.row_below, s)};
    }

   private:
    // Unsigned, so that the compiler sees that it is below 4.
    __device__ __forceinline__ int octet() const { return static_cast<int>(static_cast<uint32_t>(lane_) % 4); }
    // Written so that the compiler sees which part is the same for a whole quad.
    __device__ __forceinline__ GroupPlace place(int32_t quad, int s, int below) const {
      constexpr uint32_t kGroups = F::kGroups;
      static_assert(kGroups == 1 || kGroups == 2 || kGroups % kQuad == 0);
      const uint32_t first = static_cast<uint32_t>(quad) * kQuad, step = static_cast<uint32_t>(s);
      const uint32_t block = first / kGroups + (kGroups < kQuad ? step / kGroups : 0);
      const uint32_t group = kGroups < kQuad ? step % kGroups : first % kGroups + step;
      return {panel_, blocks_, block, uint64_t{static_cast<uint32_t>(lane_) / 4} + static_cast<uint64_t>(below),
              static_cast<int>(group)};
    }
    __device__ __forceinline__ uint4 unpack(const Octet& codes, const HalfScales<F>& of_lane, int s) const {
      HalfScales<F> scales = of_lane;
#pragma unroll
      for (uint32_t& word : scales.words) word = __shfl_sync(kAllLanes, word, s, 4);
      const int half = octet() / 2;
      return halves_of<F>(codes, scales.scale(half), scales.added(half));
    }

    const uint8_t* panel_ = nullptr;
    uint32_t blocks_ = 0;
    int lane_ = 0;
  };

  /// A thread has some neighbouring octets of one row.
  template <int kRows, int kThreads>
  class Stage {
   public:
    __device__ __forceinline__ Stage(const Product& product, int32_t matrix, int32_t row_begin)
        // Panels beyond the last repeat it.
        : panel_(product.panel_of(matrix, min(row_begin + row(), product.rows - 1))), blocks_(product.row_blocks) {}
    __device__ __forceinline__ void begin(int32_t step, uint4 (*)[kPieces]) {
      const GroupPlace place =
          group_place<F>(panel_, blocks_, static_cast<uint32_t>(row()) % kPanelRows, static_cast<uint32_t>(step));
      scales_ = HalfScales<F>::of(F::scales(place));
#pragma unroll
      for (int i = 0; i < kOctets; ++i) codes_[i] = F::codes(place, octet(i));
    }
    __device__ __forceinline__ void finish(uint4 (*to)[kPieces]) {
#pragma unroll
      for (int i = 0; i < kOctets; ++i) {
        const int half = octet(i) / 2;
        to[row()][octet(i)] = halves_of<F>(codes_[i], scales_.scale(half), scales_.added(half));
      }
    }

   private:
    static constexpr int kOctets = kRows * kPieces / kThreads;
    static_assert(kOctets == 1 || kOctets == 2, "octets of a thread have one scale");
    static constexpr int kThreadsOfRow = kPieces / kOctets;
    __device__ static int row() { return static_cast<int>(threadIdx.x) / kThreadsOfRow; }
    // In every second pair of rows the other octet comes first, so that eight lanes that write at once cover all banks.
    __device__ static int octet(int i) {
      const int first = static_cast<int>(threadIdx.x) % kThreadsOfRow * kOctets;
      return kOctets == 1 ? first : first + (i ^ (row() / 2 % 2));
    }

    const uint8_t* panel_;
    uint32_t blocks_;
    HalfScales<F> scales_ = {};
    Octet codes_[kOctets] = {};
  };
};

}  // namespace cairn::cuda
