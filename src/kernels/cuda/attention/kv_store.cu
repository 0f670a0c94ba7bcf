/// Writes keys and values to their pages.
#include "base/check.h"
#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/attention/kv_row_store.cuh"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / kWarp;

struct Call {
  KvPages pages;
  const TokenPlace* places;
  const int32_t* page_ids;
  const float* k;
  const float* v;
  int32_t kv_heads;
  int32_t key_dim;
  int32_t value_dim;
};

// One warp for every block of every head: first the blocks of all keys, then of all values.
template <KvType kType>
__global__ void __launch_bounds__(kBlock) store_kernel(Call call) {
  trigger_dependents();
  // Places and page ids are written by copies and not by kernels.
  const int64_t row = blockIdx.x;
  const int32_t key_blocks = (call.key_dim + kKvBlock - 1) / kKvBlock;
  const int32_t value_blocks = (call.value_dim + kKvBlock - 1) / kKvBlock;
  const auto number = static_cast<int32_t>(blockIdx.y * kWarps + threadIdx.x / kWarp);
  const TokenPlace place = call.places[row];
  const int32_t page = call.page_ids[place.pages_begin + place.position / kPageTokens];
  const int32_t token = place.position % kPageTokens;
  wait_for_dependencies();
  if (number >= call.kv_heads * (key_blocks + value_blocks)) return;
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

void store_kv(LaunchQueue& stream, const KvView& kv, const Rows& rows, const float* k, const float* v) {
  CAIRN_DCHECK(kv.tokens_per_row == 1);
  if (rows.count == 0) return;
  const Call call{KvPages(kv), rows.places, rows.pages, k, v, kv.kv_heads, kv.key_dim, kv.value_dim};
  const int64_t blocks = (kv.key_dim + kKvBlock - 1) / kKvBlock + (kv.value_dim + kKvBlock - 1) / kKvBlock;
  CAIRN_DCHECK(kv.kv_heads * blocks <= kGridMax * kWarps);
  const dim3 grid(static_cast<unsigned>(rows.count), blocks_of(kv.kv_heads * blocks, kWarps, kGridMax));
  const auto start = [&](auto kernel) { launch_dependent(kernel, grid, kBlock, 0, stream, call); };
  switch (kv.type) {
    case KvType::kF32:
      return start(store_kernel<KvType::kF32>);
    case KvType::kF16:
      return start(store_kernel<KvType::kF16>);
    case KvType::kBF16:
      return start(store_kernel<KvType::kBF16>);
    case KvType::kQ8_0:
      return start(store_kernel<KvType::kQ8_0>);
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  CAIRN_CHECK(false && "keys and values are not in pairs here");
}

}  // namespace cairn::kernels::cuda
