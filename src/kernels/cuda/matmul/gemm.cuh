/// Products on the tensor cores with many inputs: a block computes a tile of 128 rows by 64, 128 or 256 outputs, class
/// after class of steps (mma_operands.cuh), each warp a part of the tile.
///
/// A step passes through a pipeline. Its weights are loaded into registers three or four steps ahead, each warp those
/// of one panel; two steps ahead they are dequantised and written to shared memory, arranged as operands. Its inputs
/// are copied there three steps ahead. A warp reads the operands of half of its outputs while it multiplies those of
/// the other half. One barrier for a step suffices.
///
/// Estimate for an H100: a step of a large tile is a million multiply-adds, for which mma.sync takes about 820 cycles,
/// and 88 KB of shared memory, read and written in 690; the totals of a class are another 256 KB for every class. A
/// warp executes about 150 instructions for Q8_0 and 180 for Q4_K, 64 of them mma.sync; a scheduler has two warps. A
/// medium tile is half of that, but 64 KB in 510 cycles, so that large ones are about a tenth faster. Measured with
/// 2,048 inputs: 260 to 387 TFLOP/s, where mma.sync alone does 621 (docs/cuda.md).
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/matmul/gemm_stage.cuh"
#include "kernels/cuda/matmul/weight_operands.cuh"

namespace cairn::kernels::cuda {

/// The loaded codes of the steps after those that are dequantised. In step s of a quad a tile dequantises the codes of
/// step(s), two steps later, and then loads others; `steps` is the number of a row's steps.
template <class Lane, class Shape>
class CodeWindow {
 public:
  __device__ __forceinline__ void start(const Lane& lane, int32_t steps) {
#pragma unroll
    for (int s = 0; s < Shape::kCodeSets; ++s) codes_[s] = lane.fetch(0, min(s + 2, steps - 1));
  }
  template <int s>
  __device__ __forceinline__ typename Lane::Codes step() const {
    return codes_[s % Shape::kCodeSets];
  }
  template <int s>
  __device__ __forceinline__ void load(const Lane& lane, int32_t quad, int32_t steps) {
    constexpr int kNext = s + 2 + Shape::kCodeSets;
    const bool later = kNext >= kQuad && quad * kQuad + kNext < steps;
    codes_[s % Shape::kCodeSets] = lane.fetch(later ? quad + 1 : quad, kNext % kQuad);
  }

 private:
  typename Lane::Codes codes_[Shape::kCodeSets];
};

/// A CodeWindow where one load brings the codes of a whole quad: once all but the last step's are used, or all of them.
template <class Lane, class Shape>
class JointCodeWindow {
 public:
  __device__ __forceinline__ void start(const Lane& lane, int32_t steps) { load_quad(lane, 0, steps); }
  template <int s>
  __device__ __forceinline__ typename Lane::Codes step() const {
    if constexpr (s == 1 && kLoadsEarly) return last_;
    return codes_.step((s + 2) % kQuad);
  }
  template <int s>
  __device__ __forceinline__ void load(const Lane& lane, int32_t quad, int32_t steps) {
    if constexpr (s == (kLoadsEarly ? 0 : 1)) {
      last_ = codes_.step(kQuad - 1);
      load_quad(lane, (quad + 1) * kQuad < steps ? quad + 1 : quad, steps);
    }
  }

 private:
  static constexpr bool kLoadsEarly = Shape::kCodeSets > 1;

  __device__ __forceinline__ void load_quad(const Lane& lane, int32_t quad, int32_t steps) {
    if ((quad + 1) * kQuad <= steps) return codes_.load(lane, quad);
#pragma unroll
    for (int s = 0; s < kQuad; ++s) {
      const auto codes = lane.fetch(quad, min(s, steps - quad * kQuad - 1));
      codes_.row.words[s] = codes.row;
      codes_.row_below.words[s] = codes.row_below;
    }
  }

  typename Lane::QuadCodes codes_;
  typename Lane::Codes last_;
};

/// A warp's part in the computation of a tile.
template <class Weights, class Shape>
class TilePart {
 public:
  __device__ __forceinline__ TilePart(const Product& product, const Tile& tile, TileStage<Shape> (&stages)[kQuad])
      : stages_(stages),
        weights_(product, tile.matrix, tile.row_begin + kPanelRows * warp(), lane()),
        inputs_(product, tile),
        steps_(half_steps(product)) {}

  /// Fills the pipeline. Called after a barrier, as the next function.
  __device__ __forceinline__ void start() {
#pragma unroll
    for (int s = 0; s < kInputsAhead; ++s) {
#pragma unroll
      for (int i = 0; i < InputStage<Shape>::kCopies; ++i) inputs_.begin(i, min(s, steps_ - 1), stages_[s]);
      end_copies();
    }
    const Codes first = weights_.fetch(0, 0), second = weights_.fetch(0, min(1, steps_ - 1));
    scales_ = weights_.fetch_scales(0, min(kQuad, steps_));
    codes_.start(weights_, steps_);
    store_weights(first, 0);
    store_weights(second, 1);
    wait_for_copies<kInputsAhead - 1>();
    __syncthreads();
#pragma unroll
    for (int p = 0; p < Shape::kRowParts / 2; ++p) load_rows(stages_[0], p);
#pragma unroll
    for (int q = 0; q < Shape::kHalfParts; ++q) load_outputs(stages_[0], q);
  }

  /// Multiplies a whole quad of steps; without kMultiplies the warp only does its part for others.
  template <bool kMultiplies>
  __device__ __forceinline__ void multiply_quad(int32_t quad, TileSums<Shape>& sums) {
    step<0, true>(quad, kMultiplies, sums);
    step<1, true>(quad, kMultiplies, sums);
    step<2, true>(quad, kMultiplies, sums);
    step<3, true>(quad, kMultiplies, sums);
  }
  /// Multiplies the `count` steps of an incomplete quad, the row's last one.
  __device__ __forceinline__ void multiply_rest(int32_t quad, int32_t count, bool multiplies, TileSums<Shape>& sums) {
    step<0, false>(quad, multiplies, sums);
    if (count > 1) step<1, false>(quad, multiplies, sums);
    if (count > 2) step<2, false>(quad, multiplies, sums);
  }

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

 private:
  using Lane = typename Weights::Lane;
  using Codes = typename Lane::Codes;
  static constexpr int kInputsAhead = 3;

  // Step s of a quad. If the quad is whole, other steps may follow, whose data is loaded; there is no need to know
  // whether they exist, as others are loaded in place of those that do not.
  template <int s, bool kWhole>
  __device__ __forceinline__ void step(int32_t quad, bool multiplies, TileSums<Shape>& sums) {
    constexpr int kParts = Shape::kRowParts, kCopies = InputStage<Shape>::kCopies;
    const int32_t number = quad * kQuad + s;
    const TileStage<Shape>&own = stages_[s], &next = stages_[(s + 1) % kQuad];
    wait_for_copies<kInputsAhead - 2>();
    __syncthreads();  // step s + 1 has arrived; step s - 1 has been read
    if constexpr (kWhole && s == 0) {
      const int32_t next_quad = number + kQuad < steps_ ? quad + 1 : quad;
      next_scales_ = weights_.fetch_scales(next_quad, min(kQuad, steps_ - next_quad * kQuad));
    }
    if constexpr (s == 2) scales_ = next_scales_;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      if (p < kParts / 2) load_rows(own, kParts / 2 + p);
      load_outputs_of(own, Shape::kHalfParts, p);
      if (multiplies) multiply<0>(p, sums);
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      load_outputs_of(next, 0, p);
      if (p > 0 && p <= kParts / 2) load_rows(next, p - 1);
      if (multiplies) multiply<1>(p, sums);
    }
    // Written last, as the compiler lets no load from shared memory pass it.
    if constexpr (kWhole || s == 0) store_weights(codes_.template step<s>(), (s + 2) % kQuad);
    if constexpr (kWhole) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        inputs_.begin(i, min(number + kInputsAhead, steps_ - 1), stages_[(s + kInputsAhead) % kQuad]);
      codes_.template load<s>(weights_, quad, steps_);
    }
    end_copies();
  }

  // Dequantises the codes of step s of a quad for all warps.
  __device__ __forceinline__ void store_weights(const Codes& codes, int s) {
    const auto step = weights_.unpack(codes, scales_, s);
    const uint4 &upper = step.row, &lower = step.row_below;
    stages_[s].weights[warp()][0][lane()] = {upper.x, lower.x, upper.y, lower.y};
    stages_[s].weights[warp()][1][lane()] = {upper.z, lower.z, upper.w, lower.w};
  }
  __device__ __forceinline__ void load_rows(const TileStage<Shape>& stage, int p) {
#pragma unroll
    for (int k = 0; k < 2; ++k)
      rows_[p][k] = stage.weights[warp() % Shape::kRowWarps * Shape::kRowParts + p][k][lane()];
  }
  __device__ __forceinline__ void load_outputs(const TileStage<Shape>& stage, int q) {
    const int output = (warp() / Shape::kRowWarps * Shape::kOutputParts + q) * 8 + lane() / 4;
    outputs_[q] = stage.inputs[output][lane() % 4];
  }
  // Loads those of a half of the outputs, from part `first` on, that come with row part p.
  __device__ __forceinline__ void load_outputs_of(const TileStage<Shape>& stage, int first, int p) {
#pragma unroll
    for (int j = 0; j < Shape::kHalfParts; ++j) {
      if (j * Shape::kRowParts / Shape::kHalfParts == p) load_outputs(stage, first + j);
    }
  }
  // Multiplies row part p by half of the outputs. Instructions that follow each other have different sums.
  template <int kHalf>
  __device__ __forceinline__ void multiply(int p, TileSums<Shape>& sums) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int j = 0; j < Shape::kHalfParts; ++j) {
        const int q = kHalf * Shape::kHalfParts + j;
        const uint4 &row = rows_[p][k], &x = outputs_[q];
        const uint32_t a[4] = {row.x, row.y, row.z, row.w}, b[2] = {k == 0 ? x.x : x.z, k == 0 ? x.y : x.w};
        if constexpr (Weights::kBfloat) {
          multiply_bf16(a, b, sums[p][q]);
        } else {
          multiply_f16(a, b, sums[p][q]);
        }
      }
    }
  }

  TileStage<Shape> (&stages_)[kQuad];  // stage s has step s of a quad
  Lane weights_;
  InputStage<Shape> inputs_;
  int32_t steps_;
  // Loaded weights of the steps after those that are dequantised, and the scales of their quads.
  std::conditional_t<Weights::kJointSteps, JointCodeWindow<Lane, Shape>, CodeWindow<Lane, Shape>> codes_;
  typename Lane::Scales scales_, next_scales_;
  // Operands.
  uint4 rows_[Shape::kRowParts][2];
  uint4 outputs_[Shape::kOutputParts];
};

/// Stores a tile's products; those of matrices without scales and biases need fewer instructions.
template <class Weights, class Shape, bool kPlain>
__device__ __forceinline__ void store_tile(const Product& product, const Tile& tile, const TileSums<Shape>& sums) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int32_t row_begin = tile.row_begin + warp % Shape::kRowWarps * Shape::kRowParts * 16 + half_row(0, lane);
  const int32_t output_begin = warp / Shape::kRowWarps * Shape::kOutputParts * 8;
  const int32_t rows = product.rows - row_begin;
#pragma unroll
  for (int q = 0; q < Shape::kOutputParts; ++q) {
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      const int32_t number = output_begin + q * 8 + half_output(second, lane);
      if (number >= tile.count) continue;
      const int32_t output = tile.outputs[number];
      const float scale = half_product_scale(product, output, Weights::kUnit);
      float* const to = product.out + static_cast<int64_t>(output) * product.rows + row_begin;
#pragma unroll
      for (int p = 0; p < Shape::kRowParts; ++p) {
#pragma unroll
        for (int below = 0; below < 2; ++below) {
          const int row = p * 16 + below * 8;
          float sum = __fmul_rn(sums[p][q][2 * below + second], scale);
          if (row >= rows) continue;
          if constexpr (!kPlain) sum = product.finished(tile.matrix, row_begin + row, sum);
          to[row] = sum;
        }
      }
    }
  }
}

template <class Weights, class Shape>
__device__ __forceinline__ void multiply_tile(const Product& product, const Tile& tile, TilesShared<Shape>& shared) {
  const int32_t steps = half_steps(product), quads_of_class = steps_of_class(product) / kQuad;
  TilePart<Weights, Shape> part(product, tile, shared.stages);
  // In an incomplete tile, some warps may have no outputs.
  const bool has_outputs = part.warp() / Shape::kRowWarps * 8 * Shape::kOutputParts < tile.count;
  part.start();
  Totals<Shape> totals(shared.totals);
  TileSums<Shape> sums;
  int32_t quad = 0;
#pragma unroll 1
  for (int32_t number = 0; number < kHalfClasses; ++number) {
#pragma unroll
    for (int i = 0; i < Shape::kRowParts * Shape::kOutputParts * 4; ++i) (&sums[0][0][0])[i] = 0;
    const int32_t end = min((number + 1) * quads_of_class, (steps + kQuad - 1) / kQuad),
                  whole = min(end, steps / kQuad);
    if (has_outputs) {
#pragma unroll 1
      for (; quad < whole; ++quad) part.template multiply_quad<true>(quad, sums);
    } else {
#pragma unroll 1
      for (; quad < whole; ++quad) part.template multiply_quad<false>(quad, sums);
    }
    if (quad < end) part.multiply_rest(quad++, steps % kQuad, has_outputs, sums);
    totals.add(number, sums);
  }
  wait_for_copies<0>();
  if (product.scales == nullptr && product.bias == nullptr) {
    store_tile<Weights, Shape, true>(product, tile, sums);
  } else {
    store_tile<Weights, Shape, false>(product, tile, sums);
  }
  __syncthreads();  // all has been read: the next tile may start
}

template <class Weights, class Shape>
__global__ __launch_bounds__(kTileThreads,
                             Shape::kBlocks) void multiply_tiles(const __grid_constant__ Products products) {
  trigger_dependents();
  auto& shared = *reinterpret_cast<TilesShared<Shape>*>(shared_memory());
  const int number = products.of_block(blockIdx.y);
  const Product& product = products.of[number];
  const auto row_begin = static_cast<int32_t>(blockIdx.y - products.first_blocks[number]) * kTileRows;
  wait_for_dependencies();
  each_tile(product, shared.list, [&](int32_t matrix, const int32_t* outputs, int32_t count) {
    multiply_tile<Weights, Shape>(product, {matrix, row_begin, outputs, count}, shared);
  });
}

/// The time that a grid of tiles takes, in units of a large tile's.
template <class Shape>
double tiles_time(const Products& products, double of_tile) {
  const Product& any = products.of[0];
  const int64_t matrices = any.ids == nullptr ? 1 : any.matrices;
  const int64_t outputs = (any.outputs + matrices - 1) / matrices;
  int64_t tiles = 0;
  for (int i = 0; i < products.count; ++i) tiles += (products.of[i].rows + kTileRows - 1) / kTileRows;
  tiles *= (outputs + Shape::kTileOutputs - 1) / Shape::kTileOutputs * matrices;
  const int64_t at_once = multiprocessors();
  return static_cast<double>((tiles + at_once - 1) / at_once) * of_tile;
}

template <class Weights, class Shape>
void launch_tiles_of(LaunchQueue& stream, Products& products) {
  const unsigned rows = products.place([](const Product& each) { return blocks_of(each.rows, kTileRows, kGridMax); });
  launch_tiles<TilesShared<Shape>>(multiply_tiles<Weights, Shape>, stream, products,
                                   tile_grid(products, Shape::kTileOutputs, rows));
}

template <class Weights>
void start_tiles(LaunchQueue& stream, Products& products) {
  // Smaller tiles take more time for their size, as they share less of it.
  const double large = tiles_time<LargeTile>(products, 1), medium = tiles_time<MediumTile>(products, 0.57),
               small = tiles_time<SmallTile>(products, 0.34);
  if (large <= std::min(medium, small)) return launch_tiles_of<Weights, LargeTile>(stream, products);
  if (medium <= small) return launch_tiles_of<Weights, MediumTile>(stream, products);
  launch_tiles_of<Weights, SmallTile>(stream, products);
}

template <class Formats>
bool multiply_tiles_of(LaunchQueue& stream, Products& products) {
  return visit_format(Formats(), products.of[0].type,
                      [&]<class F>() { start_tiles<PanelWeights<F>>(stream, products); });
}

}  // namespace cairn::kernels::cuda
