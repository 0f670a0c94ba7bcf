/// Products on the tensor cores with few inputs: a block computes some rows for all of up to 32 outputs, each of its
/// warps one class of steps (mma_operands.cuh), so that the weights are read once, at full memory bandwidth.
///
/// Measured on an H100 (docs/cuda.md): one output reads BF16 at 82 to 91 % of the speed of copies, Q8_0 at 77 to 89 %,
/// Q4_0 at 58 to 75 % and Q4_K at 56 to 72 %, in grids of 4,096 to 14,336 rows. Memory gives 13 bytes a cycle to each
/// multiprocessor: a warp's step of 16 rows by 32 columns of four bits is 288 bytes, 22 cycles, in which four
/// schedulers issue 89 instructions; it takes 40 for Q4_0 and 52 for Q4_K. With 32 outputs a block of 64 rows reads as
/// many bytes of inputs from the second-level cache as of Q8_0 weights from memory, and a multiprocessor has one such
/// block, whose eight warps wait for most loads.
#pragma once

#include "kernels/cuda/matmul/weight_operands.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kVectorThreads = kHalfClasses * kWarp;
inline constexpr int kPipelinedBlocks = 2;  // of a multiprocessor
/// Minimum blocks of a grid, before they are made larger so that inputs are read less often.
inline constexpr int64_t kVectorBlocksMin = 264;

/// Adds and stores the sums of all classes for a part: 16 rows and kOutputParts times 8 outputs. Called by all threads.
template <class Weights, int kOutputParts>
__device__ __forceinline__ void store_part(const Product& product, int32_t matrix, int32_t row_begin,
                                           int32_t output_begin, int32_t count, const float (&sums)[kOutputParts][4]) {
  constexpr int kSums = 4 * kOutputParts;
  __shared__ float of_classes[kHalfClasses][kSums][kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // the part before has been read
#pragma unroll
  for (int q = 0; q < kOutputParts; ++q) {
#pragma unroll
    for (int i = 0; i < 4; ++i) of_classes[warp][4 * q + i][lane] = sums[q][i];
  }
  __syncthreads();
  for (int at = warp; at < kSums; at += kHalfClasses) {
    float sum = of_classes[0][at][lane];
#pragma unroll
    for (int c = 1; c < kHalfClasses; ++c) sum = __fadd_rn(sum, of_classes[c][at][lane]);
    const int32_t row = row_begin + half_row(at % 4, lane), output = at / 4 * 8 + half_output(at % 4, lane);
    if (row < product.rows && output < count)
      store_half_product(product, output_begin + output, matrix, row, sum, Weights::kUnit);
  }
}

/// Multiplies a quad of steps, of which `count` exist; all of them if kWhole. The data of the next steps is loaded
/// before these are multiplied, as much as registers can hold.
template <class Weights, bool kWhole, int kRowParts, int kOutputParts>
__device__ __forceinline__ void multiply_quad(const typename Weights::Lane (&weights)[kRowParts],
                                              const uint16_t* const (&inputs)[kOutputParts], int32_t quad,
                                              int32_t count, float (&sums)[kRowParts][kOutputParts][4]) {
  using Lane = typename Weights::Lane;
  // Codes that one load brings for all steps are loaded at once.
  constexpr bool kJoint = kWhole && Weights::kJointSteps;
  constexpr int kAhead = kWhole ? kQuad / kRowParts : 1;
  typename Lane::Scales scales[kRowParts];
  typename Lane::QuadCodes joint[kRowParts];
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
    scales[p] = weights[p].fetch_scales(quad, count);
    if constexpr (kJoint) joint[p].load(weights[p], quad);
  }
#pragma unroll
  for (int first = 0; first < kQuad; first += kAhead) {
    if (!kWhole && first >= count) break;
    typename Lane::Codes fetched[kAhead][kRowParts];
    uint4 x[kAhead][kOutputParts];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
#pragma unroll
      for (int p = 0; p < kRowParts; ++p) {
        if constexpr (kJoint) {
          fetched[s][p] = joint[p].step(first + s);
        } else {
          fetched[s][p] = weights[p].fetch(quad, first + s);
        }
      }
#pragma unroll
      for (int q = 0; q < kOutputParts; ++q)
        x[s][q] = *reinterpret_cast<const uint4*>(inputs[q] + (quad * kQuad + first + s) * kHalfStep);
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
#pragma unroll
      for (int p = 0; p < kRowParts; ++p) {
        const auto step = weights[p].unpack(fetched[s][p], scales[p], first + s);
#pragma unroll
        for (int q = 0; q < kOutputParts; ++q)
          multiply_step<Weights::kBfloat>(step.row, step.row_below, x[s][q], sums[p][q]);
      }
    }
  }
}

/// Multiplies whole quads of 16 rows by few outputs. With kPipelined, while a step is multiplied the next four are on
/// their way from memory; otherwise a quad is loaded as a whole, which needs fewer registers.
template <class Weights, int kOutputParts, bool kPipelined>
class QuadLoop {
 public:
  using Inputs = const uint16_t* const (&)[kOutputParts];
  /// Starts loading the weights of the first steps of quads [quad, end), of which there is at least one.
  __device__ __forceinline__ QuadLoop(const typename Weights::Lane& weights, int32_t quad, int32_t end)
      : weights_(weights), quad_(quad), end_(end) {
    fetch_weights(quad);
  }
  __device__ __forceinline__ void run(Inputs inputs, float (&sums)[kOutputParts][4]) {
#pragma unroll
    for (int s = 0; s < kQuad; ++s) fetch_inputs(inputs, quad_, s);
#pragma unroll(kPipelined ? 2 : 1)
    for (; quad_ < end_; ++quad_) {
      if constexpr (kPipelined) {
        multiply_while_loading(inputs, sums);
      } else {
#pragma unroll
        for (int s = 0; s < kQuad; ++s) multiply(weights_.unpack(codes_.step(s), scales_, s), x_[s], sums);
        if (quad_ + 1 == end_) break;
        fetch_weights(quad_ + 1);
#pragma unroll
        for (int s = 0; s < kQuad; ++s) fetch_inputs(inputs, quad_ + 1, s);
      }
    }
  }

 private:
  using Lane = typename Weights::Lane;

  __device__ __forceinline__ void multiply_while_loading(Inputs inputs, float (&sums)[kOutputParts][4]) {
    // The last quad is loaded twice, the second time from a cache: a branch would cost more.
    const int32_t next = min(quad_ + 1, end_ - 1);
    const auto next_scales = weights_.fetch_scales(next, kQuad);
#pragma unroll
    for (int s = 0; s < kQuad; ++s) {
      const auto step = weights_.unpack(codes_.step(s), scales_, s);
      uint4 x[kOutputParts];
#pragma unroll
      for (int q = 0; q < kOutputParts; ++q) x[q] = x_[s][q];
      codes_.replace(weights_, next, s);
      fetch_inputs(inputs, next, s);
      multiply(step, x, sums);
    }
    scales_ = next_scales;
  }
  template <class Step>
  __device__ __forceinline__ static void multiply(const Step& step, const uint4 (&x)[kOutputParts],
                                                  float (&sums)[kOutputParts][4]) {
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q) multiply_step<Weights::kBfloat>(step.row, step.row_below, x[q], sums[q]);
  }
  __device__ __forceinline__ void fetch_weights(int32_t quad) {
    scales_ = weights_.fetch_scales(quad, kQuad);
    codes_.load(weights_, quad);
  }
  __device__ __forceinline__ void fetch_inputs(Inputs inputs, int32_t quad, int s) {
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q)
      x_[s][q] = *reinterpret_cast<const uint4*>(inputs[q] + (quad * kQuad + s) * kHalfStep);
  }

  const Lane& weights_;
  int32_t quad_;
  const int32_t end_;
  typename Lane::Scales scales_;
  typename Lane::QuadCodes codes_;
  uint4 x_[kQuad][kOutputParts];
};

/// Blocks that a multiprocessor has at once, which bounds a thread's registers. Measured on an H100: where there are
/// more blocks than this, more warps read faster; where there are fewer, more loads of each warp do (kPipelined).
template <class Weights>
constexpr int vector_blocks(int row_parts, int output_parts, bool pipelined) {
  if (row_parts > 1) return 1;
  if (pipelined || output_parts > 1) return kPipelinedBlocks;
  return Weights::kBlocks;
}

/// Computes kRowParts times 16 rows by kOutputParts times 8 outputs. With `ids` the block's only output is blockIdx.y.
template <class Weights, int kRowParts, int kOutputParts, bool kPipelined>
__global__ __launch_bounds__(
    kVectorThreads,
    vector_blocks<Weights>(kRowParts, kOutputParts,
                           kPipelined)) void multiply_vectors(const __grid_constant__ Products products) {
  constexpr int kOutputs = 8 * kOutputParts;
  trigger_dependents();
  const int number = products.of_block();
  const Product& product = products.of[number];
  if (product.ids != nullptr) wait_for_dependencies();
  const auto block = static_cast<int32_t>(blockIdx.x - products.first_blocks[number]);
  const int32_t groups = product.ids == nullptr ? (product.outputs + kOutputs - 1) / kOutputs : 1;
  // Blocks of the same rows are neighbours, as they read the same weights.
  const int32_t row_begin = block / groups * 16 * kRowParts;
  const int32_t output_begin = product.ids == nullptr ? block % groups * kOutputs : static_cast<int32_t>(blockIdx.y);
  const int32_t count = product.ids == nullptr ? min(kOutputs, product.outputs - output_begin) : 1;
  const int32_t matrix = product.matrix_of(output_begin);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;

  using Lane = typename Weights::Lane;
  Lane weights[kRowParts] = {};
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) weights[p] = Lane(product, matrix, row_begin + 16 * p, lane);
  // Outputs beyond the end repeat the last one, and their results are dropped.
  const uint16_t* inputs[kOutputParts];
#pragma unroll
  for (int q = 0; q < kOutputParts; ++q) {
    const int32_t output = output_begin + min(8 * q + lane / 4, count - 1);
    inputs[q] = product.halves.values + static_cast<int64_t>(product.input_of(output)) * product.padded_cols +
                lane % 4 * kHalfColumns;
  }

  float sums[kRowParts][kOutputParts][4] = {};
  const int32_t steps = half_steps(product), quads = steps_of_class(product) / kQuad;
  int32_t quad = warp * quads;
  const int32_t end = quad + quads, whole_end = min(end, steps / kQuad);
  if constexpr (kRowParts == 1) {
    if (quad < whole_end) {
      QuadLoop<Weights, kOutputParts, kPipelined> loop(weights[0], quad, whole_end);
      wait_for_dependencies();
      loop.run(inputs, sums[0]);
      quad = whole_end;
    } else {
      wait_for_dependencies();
    }
  } else {
    wait_for_dependencies();
    for (; quad < whole_end; ++quad) multiply_quad<Weights, true>(weights, inputs, quad, kQuad, sums);
  }
  if (quad < end && quad * kQuad < steps) multiply_quad<Weights, false>(weights, inputs, quad, steps % kQuad, sums);
#pragma unroll
  for (int p = 0; p < kRowParts; ++p)
    store_part<Weights>(product, matrix, row_begin + 16 * p, output_begin, count, sums[p]);
}

template <class Weights, int kRowParts, int kOutputParts, bool kPipelined = false>
void launch_vectors(LaunchQueue& stream, Products& products) {
  const unsigned blocks = products.place([](const Product& each) {
    const int32_t groups = each.ids == nullptr ? (each.outputs + 8 * kOutputParts - 1) / (8 * kOutputParts) : 1;
    return blocks_of(each.rows, 16 * kRowParts, INT32_MAX) * static_cast<unsigned>(groups);
  });
  const dim3 grid(blocks, products.of[0].ids == nullptr ? 1 : static_cast<unsigned>(products.of[0].outputs));
  launch_dependent(multiply_vectors<Weights, kRowParts, kOutputParts, kPipelined>, grid, kVectorThreads, 0, stream,
                   products);
}

template <class Weights>
void launch_vectors(LaunchQueue& stream, Products& products) {
  const bool chosen = products.of[0].ids != nullptr;
  const int32_t outputs = chosen ? 1 : products.of[0].outputs;
  int64_t rows = 0;
  for (int i = 0; i < products.count; ++i) rows += products.of[i].rows;
  if (outputs <= 8) {
    if constexpr (Weights::kPipelines) {
      const int64_t blocks = rows / 16 * (chosen ? products.of[0].outputs : 1);
      if (blocks <= multiprocessors() * kPipelinedBlocks) return launch_vectors<Weights, 1, 1, true>(stream, products);
    }
    return launch_vectors<Weights, 1, 1>(stream, products);
  }
  if (outputs <= 16) return launch_vectors<Weights, 1, 2>(stream, products);
  if (rows < kVectorBlocksMin * 64) return launch_vectors<Weights, 2, 4>(stream, products);
  launch_vectors<Weights, 4, 4>(stream, products);
}

template <class Formats>
bool multiply_vectors_of(LaunchQueue& stream, Products& products) {
  return visit_format(Formats(), products.of[0].type,
                      [&]<class F>() { launch_vectors<PanelWeights<F>>(stream, products); });
}

}  // namespace cairn::kernels::cuda
