/// Decodes tiles of rows of MlaOperations, at any addresses, to float32, as attention does with its pages.
#pragma once

#include "kernels/cuda/attention/page.cuh"
#include "kernels/cuda/mla/latent_row.cuh"
#include "kernels/cuda/mla/read_plan.h"

namespace cairn::kernels::cuda {

static_assert(kLatentTile == kWarp);

/// rows [kLatentTile] are the rows' addresses, all of one type; tile [kLatentTile, key_columns(dim)], tile_stride
/// apart.
__device__ inline void decode_rows(KvType type, const std::byte* const* rows, int32_t dim, float* tile) {
  const auto row_at = [rows](int32_t i) { return rows[i]; };
  if (type == KvType::kF32) return decode_page<KvType::kF32>(row_at, dim, key_columns(dim), tile);
  if (type == KvType::kF16) return decode_page<KvType::kF16>(row_at, dim, key_columns(dim), tile);
  if (type == KvType::kBF16) return decode_page<KvType::kBF16>(row_at, dim, key_columns(dim), tile);
  decode_page<KvType::kQ8_0>(row_at, dim, key_columns(dim), tile);
}

}  // namespace cairn::kernels::cuda
