// Products of float32 matrices with many inputs, in float32 without tensor cores. A stage is 64 columns, eight for each
// warp, which multiplies them column after column: a lane has 8 rows by 8 outputs. Each warp computes the whole tile
// for one class of columns (reduction_order.cuh) at a time, in four passes; the results of a pass are accumulated in
// shared memory, and at the end the sums of all warps are added.
#include "kernels/cuda/matmul/gemm_tile.cuh"
#include "kernels/cuda/weights/float_formats.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kTileRows = 64;
constexpr int kTileOutputs = 32;
// Elements of the tile per lane.
constexpr int kTileElements = kTileRows * kTileOutputs / kWarp;
static_assert(kTileWarps == kPassClasses);
constexpr int kStageColumns = kPassClasses * kFloatStep;
// Two columns of eight rows, which half a warp reads at the same time, are in different banks.
constexpr int kPitch = kStageColumns + 4;
constexpr int kLaneRows = 8;
constexpr int kLaneOutputs = 8;
// Rows r, r + 8, ... and outputs o, o + 4, ... belong to lane 8 o + r.
constexpr int kRowStep = kTileRows / kLaneRows;
constexpr int kOutputStep = kTileOutputs / kLaneOutputs;
static_assert(kLaneRows * kLaneOutputs == kTileElements && kRowStep * kOutputStep == kWarp);

// Sums of finished passes.
struct TileSums {
  float sums[kTileWarps][kTileElements][kWarp];

  // Adds a warp's sums of a pass; each is accessed by one lane only.
  __device__ __forceinline__ void add(int pass, const float (&of_pass)[kTileElements]) {
    float(*own)[kWarp] = sums[threadIdx.x / kWarp];
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kTileElements; ++i) {
      own[i][lane] = pass == 0 ? of_pass[i] : __fadd_rn(own[i][lane], of_pass[i]);
    }
  }
};

struct Shared {
  TileSums sums;
  alignas(16) float weights[kTileRows][kPitch];
  alignas(16) float inputs[kTileOutputs][kPitch];
  OutputList<kTileOutputs> list;
};

__device__ __forceinline__ void store_columns(const float (&columns)[kFloatStep], float* to) {
  auto* four = reinterpret_cast<float4*>(to);
  four[0] = make_float4(columns[0], columns[1], columns[2], columns[3]);
  four[1] = make_float4(columns[4], columns[5], columns[6], columns[7]);
}

// Rows and outputs beyond the last repeat it; columns beyond the last are zeros.
template <class F, bool kWide>
__device__ __forceinline__ void stage(const Product& product, int32_t matrix, int32_t row_begin, const int32_t* outputs,
                                      int32_t count, int32_t first_column, Shared& shared) {
  constexpr int kSteps = kPassClasses;
  float columns[kFloatStep];
#pragma unroll 1
  for (int i = threadIdx.x; i < kTileRows * kSteps; i += kTileThreads) {
    const int row = i / kSteps, at = i % kSteps * kFloatStep;
    const uint8_t* weights = product.weight_row(matrix, min(row_begin + row, product.rows - 1));
    load_columns<F, kWide>(weights, first_column + at, product.cols, columns);
    store_columns(columns, &shared.weights[row][at]);
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < kTileOutputs * kSteps; i += kTileThreads) {
    const int row = i / kSteps, at = i % kSteps * kFloatStep;
    const float* x = product.x + static_cast<int64_t>(product.input_of(outputs[min(row, count - 1)])) * product.cols;
    load_columns<FormatF32, kWide>(reinterpret_cast<const uint8_t*>(x), first_column + at, product.cols, columns);
    store_columns(columns, &shared.inputs[row][at]);
  }
}

// Multiplies kColumns columns of the stage from `at` on.
template <int kColumns>
__device__ __forceinline__ void multiply_columns(const Shared& shared, int at, int32_t count,
                                                 float (&sums)[kTileElements]) {
  const int row = threadIdx.x % kRowStep, output = threadIdx.x % kWarp / kRowStep;
  float w[kLaneRows][kColumns], x[kLaneOutputs][kColumns];
#pragma unroll
  for (int i = 0; i < kLaneRows; ++i) {
#pragma unroll
    for (int k = 0; k < kColumns; ++k) w[i][k] = shared.weights[row + i * kRowStep][at + k];
  }
#pragma unroll
  for (int j = 0; j < kLaneOutputs; ++j) {
#pragma unroll
    for (int k = 0; k < kColumns; ++k) x[j][k] = shared.inputs[output + j * kOutputStep][at + k];
  }
#pragma unroll
  for (int j = 0; j < kLaneOutputs; ++j) {
    if (j * kOutputStep >= count) continue;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) {
        float& sum = sums[i * kLaneOutputs + j];
        sum = __fmaf_rn(w[i][k], x[j][k], sum);
      }
    }
  }
}

// An element's place in the tile.
struct TilePlace {
  int row;
  int output;
};

__device__ __forceinline__ TilePlace place_of(int element, int lane) {
  return {lane % kRowStep + element / kLaneOutputs * kRowStep, lane / kRowStep + element % kLaneOutputs * kOutputStep};
}

// Stores a finished tile. Called by all threads, which may afterwards overwrite the tile's sources at once.
__device__ __forceinline__ void store_tile(const Product& product, const TileSums& sums, int32_t matrix,
                                           int32_t row_begin, const int32_t* outputs, int32_t count) {
  __syncthreads();
  const int lane = threadIdx.x % kWarp;
  for (int i = threadIdx.x / kWarp; i < kTileElements; i += kTileWarps) {
    const TilePlace place = place_of(i, lane);
    const int32_t row = row_begin + place.row;
    if (row >= product.rows || place.output >= count) continue;
    product.store(outputs[place.output], matrix, row, add_eight(&sums.sums[0][i][lane], kTileElements * kWarp));
  }
  __syncthreads();
}

template <class F, bool kWide>
__global__ __launch_bounds__(kTileThreads, 2) void multiply_tiles(const __grid_constant__ Products products) {
  trigger_dependents();
  auto& shared = *reinterpret_cast<Shared*>(shared_memory());
  const int number = products.of_block(blockIdx.y);
  const Product& product = products.of[number];
  const auto row_begin = static_cast<int32_t>(blockIdx.y - products.first_blocks[number]) * kTileRows;
  wait_for_dependencies();
  const int own = static_cast<int>(threadIdx.x / kWarp) * kFloatStep;
  each_tile(product, shared.list, [&](int32_t matrix, const int32_t* outputs, int32_t count) {
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      float sums[kTileElements] = {};
      for (int32_t first = pass * kStageColumns; first < product.cols; first += kClasses * kFloatStep) {
        stage<F, kWide>(product, matrix, row_begin, outputs, count, first, shared);
        __syncthreads();
        const int32_t columns = min(kFloatStep, product.cols - first - own);
        if (columns == kFloatStep) {
#pragma unroll 1
          for (int k = 0; k < kFloatStep; k += 2) multiply_columns<2>(shared, own + k, count, sums);
        } else {
          for (int k = 0; k < columns; ++k) multiply_columns<1>(shared, own + k, count, sums);
        }
        __syncthreads();
      }
      shared.sums.add(pass, sums);
    }
    store_tile(product, shared.sums, matrix, row_begin, outputs, count);
  });
}

}  // namespace

bool multiply_tiles_float(LaunchQueue& stream, Products& products) {
  return visit_format(FormatList<FormatF32>(), products.of[0].type, [&]<class F>() {
    bool wide = true;
    for (int i = 0; i < products.count; ++i) wide = wide && reads_wide(products.of[i]);
    const unsigned row_blocks =
        products.place([](const Product& each) { return blocks_of(each.rows, kTileRows, kGridMax); });
    const auto kernel = wide ? multiply_tiles<F, true> : multiply_tiles<F, false>;
    launch_tiles<Shared>(kernel, stream, products, tile_grid(products, kTileOutputs, row_blocks));
  });
}

}  // namespace cairn::kernels::cuda
