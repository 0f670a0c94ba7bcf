/// Writes and reads single rows of MlaOperations.
#include "base/check.h"
#include "kernels/cuda/attention/kv_row_store.cuh"
#include "kernels/cuda/mla/latent_row.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 128;
constexpr int kWarps = kBlock / kWarp;

struct StoreCall {
  LatentPages pages;
  Rows rows;
  int32_t dim = 0;
  const float* x = nullptr;
};

__device__ void store_piece(const StoreCall& call, const float* x, int32_t begin, std::byte* row) {
  if (call.pages.type == KvType::kF32) return store_block<KvType::kF32>(x, begin, call.dim, row);
  if (call.pages.type == KvType::kF16) return store_block<KvType::kF16>(x, begin, call.dim, row);
  if (call.pages.type == KvType::kBF16) return store_block<KvType::kBF16>(x, begin, call.dim, row);
  store_block<KvType::kQ8_0>(x, begin, call.dim, row);
}

// A block for each row of the batch, a warp for each kKvBlock elements of the row that it completes.
__global__ void __launch_bounds__(kBlock) store_kernel(StoreCall call) {
  const auto number = static_cast<int32_t>(blockIdx.x);
  const TokenPlace place = call.rows.places[number];
  if (!completes(place, call.pages.tokens_per_row)) return;
  const int32_t before = completed_before(call.rows, number, call.pages.tokens_per_row);
  const float* x = call.x + static_cast<int64_t>(before) * call.dim;
  std::byte* row = call.pages.row(call.rows.pages + place.pages_begin, place.position / call.pages.tokens_per_row);
  for (int32_t begin = static_cast<int32_t>(threadIdx.x) / kWarp * kKvBlock; begin < call.dim;
       begin += kWarps * kKvBlock) {
    store_piece(call, x, begin, row);
  }
}

// One block for each row.
__global__ void __launch_bounds__(kBlock) load_previous_kernel(LatentPages pages, Rows rows, int32_t dim, float* out) {
  const int64_t number = blockIdx.x;
  const TokenPlace place = rows.places[number];
  const float* from = nullptr;
  if (place.position > 0 && rows.pages[place.pages_begin + (place.position - 1) / kPageTokens] >= 0) {
    from = reinterpret_cast<const float*>(pages.row(rows.pages + place.pages_begin, place.position - 1));
  }
  for (int32_t d = threadIdx.x; d < dim; d += kBlock) out[number * dim + d] = from == nullptr ? 0.0f : from[d];
}

}  // namespace

void store_rows(LaunchQueue& stream, const KvView& kv, const Rows& rows, const float* x) {
  CAIRN_DCHECK(kv.kv_heads == 1 && kv.type != KvType::kI16);
  if (rows.count == 0) return;
  const StoreCall call{LatentPages(kv), rows, kv.key_dim, x};
  launch(store_kernel, dim3(static_cast<unsigned>(rows.count)), kBlock, 0, stream, call);
}

void load_previous_rows(LaunchQueue& stream, const KvView& kv, const Rows& rows, float* out) {
  CAIRN_DCHECK(kv.type == KvType::kF32 && kv.tokens_per_row == 1);
  if (rows.count == 0) return;
  launch(load_previous_kernel, dim3(static_cast<unsigned>(rows.count)), kBlock, 0, stream, LatentPages(kv), rows,
         kv.key_dim, out);
}

}  // namespace cairn::kernels::cuda
