/// Writes keys and values to their pages, rounded as on the CPU (kernels/cpu/kv_rounding_body.h).
#include "base/check.h"
#include "kernels/cuda/kv_row.cuh"
#include "kernels/cuda/operations.h"

namespace cairn::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / kWarp;
constexpr float kLargestHalf = 65504;
static_assert(kKvBlock == kWarp);

struct Call {
  KvPages pages;
  const RowPlace* places;
  const int32_t* page_ids;
  const float* k;
  const float* v;
  int32_t kv_heads;
  int32_t key_dim;
  int32_t value_dim;
};

// The bits of the largest magnitude of all lanes: as integers, so that infinity is above numbers and NaN above both.
__device__ int32_t largest_magnitude(float x) {
  int32_t bits = __float_as_int(x) & 0x7fffffff;
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const int32_t other = __shfl_xor_sync(kAllLanes, bits, apart);
    bits = other > bits ? other : bits;
  }
  return bits;
}

// One block of a row, an element a lane; what is behind the row's end counts as 0.
__device__ void store_q8_0(float x, int32_t lane, std::byte* block) {
  const int32_t most = largest_magnitude(x);
  const float scale = __int_as_float(most) / 127.0f;
  const __half half =
      most > 0x7f800000 ? __ushort_as_half(0x7e00) : __float2half_rn(scale > kLargestHalf ? kLargestHalf : scale);
  const float rounded = __half2float(half);
  const float inverse = rounded > 0 ? 1.0f / rounded : 0.0f;
  float value = __fmul_rn(x, inverse);
  value = value > 127.0f ? 127.0f : value;
  value = value < -127.0f ? -127.0f : value;
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const int32_t whole = __float_as_int(__fadd_rn(value, 12582912.0f));
  if (lane == 0) *reinterpret_cast<__half*>(block) = half;
  reinterpret_cast<int8_t*>(block + sizeof(__half))[lane] = static_cast<int8_t>(whole & 255);
}

// Elements [begin, begin + 32) of a row of `dim`.
template <KvType kType>
__device__ void store_block(const float* x, int32_t begin, int32_t dim, std::byte* row) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t d = begin + lane;
  const float value = d < dim ? x[d] : 0.0f;
  if constexpr (kType == KvType::kQ8_0) {
    store_q8_0(value, lane, row + begin / kKvBlock * kKvBlockBytes);
  } else if (d < dim) {
    if constexpr (kType == KvType::kF32) {
      reinterpret_cast<float*>(row)[d] = value;
    } else {
      const float most = value > kLargestHalf ? kLargestHalf : value;
      reinterpret_cast<__half*>(row)[d] = __float2half_rn(most < -kLargestHalf ? -kLargestHalf : most);
    }
  }
}

// A warp for every block of every head: first all keys', then all values'.
template <KvType kType>
__global__ void __launch_bounds__(kBlock) store_kernel(Call call) {
  const int64_t row = blockIdx.x;
  const int32_t key_blocks = (call.key_dim + kKvBlock - 1) / kKvBlock;
  const int32_t value_blocks = (call.value_dim + kKvBlock - 1) / kKvBlock;
  const auto number = static_cast<int32_t>(blockIdx.y * kWarps + threadIdx.x / kWarp);
  if (number >= call.kv_heads * (key_blocks + value_blocks)) return;
  const RowPlace place = call.places[row];
  const int32_t page = call.page_ids[place.pages_begin + place.position / kPageTokens];
  const int32_t token = place.position % kPageTokens;
  if (number < call.kv_heads * key_blocks) {
    const int32_t head = number / key_blocks, block = number % key_blocks;
    store_block<kType>(call.k + (row * call.kv_heads + head) * call.key_dim, block * kKvBlock, call.key_dim,
                       call.pages.keys(page, head) + token * call.pages.key_row_bytes);
  } else {
    const int32_t rest = number - call.kv_heads * key_blocks;
    const int32_t head = rest / value_blocks, block = rest % value_blocks;
    store_block<kType>(call.v + (row * call.kv_heads + head) * call.value_dim, block * kKvBlock, call.value_dim,
                       call.pages.values(page, head) + token * call.pages.value_row_bytes);
  }
}

}  // namespace

void store_kv(cudaStream_t stream, const KvView& kv, const Rows& rows, const float* k, const float* v) {
  CAIRN_DCHECK(kv.tokens_per_row == 1);
  if (rows.count == 0) return;
  const Call call{KvPages(kv), rows.places, rows.pages, k, v, kv.kv_heads, kv.key_dim, kv.value_dim};
  const int64_t blocks = (kv.key_dim + kKvBlock - 1) / kKvBlock + (kv.value_dim + kKvBlock - 1) / kKvBlock;
  CAIRN_DCHECK(kv.kv_heads * blocks <= kGridMax * kWarps);
  const dim3 grid(static_cast<unsigned>(rows.count), blocks_of(kv.kv_heads * blocks, kWarps, kGridMax));
  const auto kernel = kv.type == KvType::kF32   ? store_kernel<KvType::kF32>
                      : kv.type == KvType::kF16 ? store_kernel<KvType::kF16>
                                                : store_kernel<KvType::kQ8_0>;
  launch(kernel, grid, kBlock, 0, stream, call);
}

}  // namespace cairn::cuda
