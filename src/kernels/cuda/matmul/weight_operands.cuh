/// Loads weights as operands of the tensor cores (mma_operands.cuh), from rows of 16-bit floats and from panels of
/// blocks alike: a lane's part of 16 rows.
#pragma once

#include <type_traits>

#include "kernels/cuda/matmul/mma_operands.cuh"

namespace cairn::kernels::cuda {

/// The codes of a quad's steps as they are in memory, on their way to a lane, which loads each step by itself.
template <class Lane>
struct SeparateSteps {
  typename Lane::Codes steps[kQuad];

  /// Loads a quad, all steps of which exist.
  __device__ __forceinline__ void load(const Lane& lane, int32_t quad) {
#pragma unroll
    for (int s = 0; s < kQuad; ++s) steps[s] = lane.fetch(quad, s);
  }
  __device__ __forceinline__ typename Lane::Codes step(int s) const { return steps[s]; }
  /// Loads step s of the next quad in place of this one's. Called for all steps, in their order.
  __device__ __forceinline__ void replace(const Lane& lane, int32_t next_quad, int s) {
    steps[s] = lane.fetch(next_quad, s);
  }
};

/// The four-bit codes of a quad's steps, of which one load brings a row's for all steps.
template <class Lane>
struct JointSteps {
  Sixteen row, row_below, next_row, next_row_below;

  __device__ __forceinline__ void load(const Lane& lane, int32_t quad) {
    row = lane.fetch_row(quad, 0);
    row_below = lane.fetch_row(quad, 1);
  }
  __device__ __forceinline__ typename Lane::Codes step(int s) const { return {row.words[s], row_below.words[s]}; }
  __device__ __forceinline__ void replace(const Lane& lane, int32_t next_quad, int s) {
    if (s == 0) {
      next_row = lane.fetch_row(next_quad, 0);
      next_row_below = lane.fetch_row(next_quad, 1);
    }
    if (s == kQuad - 1) {
      row = next_row;
      row_below = next_row_below;
    }
  }
};

/// Rows of 16-bit floats, F being FormatF16 or FormatBF16.
template <class F, bool kWide>
struct RowWeights {
  static constexpr bool kBfloat = F::kType == TensorType::kBF16;
  static constexpr float kUnit = 1;
  /// Measured on an H100 (gemv.cuh): whether kPipelined is faster in small grids, and blocks of a multiprocessor
  /// without it. Whether one load brings the codes of a quad's steps.
  static constexpr bool kPipelines = false;
  static constexpr bool kJointSteps = false;
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
    /// A step's codes as they are in memory.
    using Codes = Step;
    __device__ __forceinline__ Codes fetch(int32_t quad, int s) const {
      const int32_t column = (quad * kQuad + s) * kHalfStep + column_;
      return {load_halves<kWide>(rows_[0], column, cols_), load_halves<kWide>(rows_[1], column, cols_)};
    }
    using QuadCodes = SeparateSteps<Lane>;
    /// Converts a step to the operands of multiply_step. Called by all lanes of a warp together.
    static __device__ __forceinline__ Step unpack(const Codes& codes, const Scales&, int) { return codes; }

   private:
    const uint8_t* rows_[2] = {};
    int32_t column_ = 0;
    int32_t cols_ = 0;
  };
};

/// Weights in panels of blocks of a quantised type.
template <class F>
struct PanelWeights {
  static constexpr bool kBfloat = false;
  static constexpr float kUnit = 1 / kWeightUnits;
  static constexpr bool kPipelines = true;
  static constexpr bool kJointSteps = F::kNibbles;
  static constexpr int kBlocks = 4;

  class Lane {
   public:
    Lane() = default;
    __device__ __forceinline__ Lane(const Product& product, int32_t matrix, int32_t row_begin, int lane)
        : panel_(product.panel_of(matrix, min(row_begin, product.rows - 1))), blocks_(product.row_blocks), lane_(lane) {
      if constexpr (F::kNibbles)
        quads_ = panel_ + uint64_t{kPanelRows * F::kQs.offset} * blocks_ + static_cast<uint64_t>(lane) * sizeof(uint4);
    }
    /// Scales of the two rows, for as many steps as four lanes dequantise together: each lane has one.
    struct Scales {
      HalfScales<F> row, row_below;
    };
    __device__ __forceinline__ Scales fetch_scales(int32_t quad, int32_t count) const {
      const int s = count == kQuad ? octet() : min(octet(), count - 1);
      return {HalfScales<F>::of(F::scales(place(quad, s, 0))), HalfScales<F>::of(F::scales(place(quad, s, 8)))};
    }
    struct Codes {
      std::conditional_t<F::kNibbles, uint32_t, Octet> row, row_below;
    };
    using QuadCodes = std::conditional_t<F::kNibbles, JointSteps<Lane>, SeparateSteps<Lane>>;
    __device__ __forceinline__ Codes fetch(int32_t quad, int s) const {
      return {fetch(place(quad, s, 0)), fetch(place(quad, s, 8))};
    }
    /// The four-bit codes of the upper (0) or the lower (1) row for all steps of a quad.
    __device__ __forceinline__ Sixteen fetch_row(int32_t quad, int lower) const {
      return load_sixteen(quads_ + static_cast<int64_t>(quad) * kNibbleQuadBytes + lower * (kNibbleQuadBytes / 2));
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
    __device__ __forceinline__ auto fetch(const GroupPlace& place) const {
      if constexpr (F::kNibbles) {
        return load_word(place.template nibbles_at<F::kQs>(F::kGroups, octet()));
      } else {
        return F::codes(place, octet());
      }
    }
    template <class RowCodes>
    __device__ __forceinline__ uint4 unpack(const RowCodes& codes, const HalfScales<F>& of_lane, int s) const {
      HalfScales<F> scales = of_lane;
#pragma unroll
      for (uint32_t& word : scales.words) word = __shfl_sync(kAllLanes, word, s, 4);
      const int half = octet() / 2;
      return halves_of<F>(codes, scales.scale(half), scales.added(half));
    }

    const uint8_t* panel_ = nullptr;
    const uint8_t* quads_ = nullptr;  // the lane's four-bit codes
    uint32_t blocks_ = 0;
    int lane_ = 0;
  };
};

}  // namespace cairn::kernels::cuda
