// Decodes rows of a table to floats: one thread for every eight columns. The bits are those of quant's decoders, times
// the scale.
#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/weights/float_formats.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kBlocksMax = 1 << 20;
constexpr int kColumns = 8;
static_assert(kColumns == kFloatStep);

struct Table {
  const uint8_t* data;
  int64_t row_bytes;
  uint32_t row_blocks;
  int32_t cols;
};

template <class F>
struct ReadBlocks {
  static __device__ __forceinline__ void read(const Table& table, int32_t row, int32_t column, float (&out)[kColumns]) {
    const uint8_t* panel = table.data + row / kPanelRows * kPanelRows * table.row_bytes;
    const GroupPlace place = group_place<F>(panel, table.row_blocks, static_cast<uint32_t>(row % kPanelRows),
                                            static_cast<uint32_t>(column / kGroupColumns));
    const int octet = column % kGroupColumns / kColumns;
    const Octet codes = F::codes(place, octet);
    const GroupScales scales = F::scales(place);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const auto code = static_cast<int8_t>((codes.words[i / 4] >> (i % 4 * 8)) & 255u);
      out[i] = weight_of<F>(scales, code, octet / 2);
    }
  }
};

template <class F>
struct ReadFloats {
  static __device__ __forceinline__ void read(const Table& table, int32_t row, int32_t column, float (&out)[kColumns]) {
    load_columns<F, false>(table.data + row * table.row_bytes, column, table.cols, out);
  }
};

template <class Read>
__global__ __launch_bounds__(kBlock) void embed_kernel(Table table, const int32_t* ids, int64_t count, float scale,
                                                       float* out) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t pieces_of_row = (table.cols + kColumns - 1) / kColumns;
  const int64_t pieces = count * pieces_of_row;
  for (int64_t i = int64_t{blockIdx.x} * kBlock + threadIdx.x; i < pieces; i += int64_t{gridDim.x} * kBlock) {
    const int64_t number = i / pieces_of_row;
    const auto column = static_cast<int32_t>(i % pieces_of_row * kColumns);
    float values[kColumns];
    Read::read(table, ids[number], column, values);
    float* to = out + number * table.cols + column;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      if (column + k < table.cols) to[k] = __fmul_rn(values[k], scale);
    }
  }
}

}  // namespace

void embed(LaunchQueue& stream, const Matrix& table, const int32_t* ids, int64_t count, float scale, float* out) {
  CAIRN_DCHECK(table.experts == 1 && table.cols > 0 && table.cols <= INT32_MAX);
  if (count == 0) return;
  const Table rows{static_cast<const uint8_t*>(table.data), row_bytes(table.type, table.cols),
                   static_cast<uint32_t>(table.cols / tensor_type_info(table.type).block_elements),
                   static_cast<int32_t>(table.cols)};
  const dim3 grid(blocks_of(count * ((table.cols + kColumns - 1) / kColumns), kBlock, kBlocksMax));
  const bool blocks = visit_format(AllFormats(), table.type, [&]<class F>() {
    launch_dependent(embed_kernel<ReadBlocks<F>>, grid, kBlock, 0, stream, rows, ids, count, scale, out);
  });
  const bool floats = !blocks && visit_format(FloatFormats(), table.type, [&]<class F>() {
    launch_dependent(embed_kernel<ReadFloats<F>>, grid, kBlock, 0, stream, rows, ids, count, scale, out);
  });
  CAIRN_DCHECK(blocks || floats);
}

}  // namespace cairn::kernels::cuda
