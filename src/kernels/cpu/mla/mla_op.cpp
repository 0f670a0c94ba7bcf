#include "kernels/cpu/mla/mla_op.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/attention/kv_page.h"

namespace cairn::kernels::cpu {
namespace {

constexpr double kLatentStoreNs = 0.5;  // per element; only used to choose the size of chunks

}  // namespace

Result<void> MlaOp::reserve(const MlaSizes& sizes) {
  CAIRN_TRY_VOID(attention_.reserve(sizes));
  return chooser_.reserve(sizes);
}

void MlaOp::store_rows(const KvView& kv, std::span<const AttentionSlice> slices, const float* x) {
  for (const AttentionSlice& slice : slices) {
    const int32_t first = kv_rows(slice.position_begin, kv.tokens_per_row);
    const int32_t count = kv_rows(slice.position_begin + slice.rows, kv.tokens_per_row) - first;
    team_.run_items(count, kLatentStoreNs * kv.key_dim, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        store_row(kv, x + i * kv.key_dim, latent_row(kv, slice.pages, first + static_cast<int32_t>(i)));
      }
    });
    x += int64_t{count} * kv.key_dim;
  }
}

void MlaOp::load_previous_rows(const KvView& kv, std::span<const AttentionSlice> slices, float* out) {
  CAIRN_DCHECK(kv.type == KvType::kF32 && kv.tokens_per_row == 1);
  const size_t bytes = static_cast<size_t>(kv.key_dim) * sizeof(float);
  for (const AttentionSlice& slice : slices) {
    team_.run_items(slice.rows, kLatentStoreNs * kv.key_dim, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t position = slice.position_begin + static_cast<int32_t>(i);
        float* to = out + i * kv.key_dim;
        if (position == 0 || slice.pages[(position - 1) / kPageTokens] == kNoPage) {
          std::fill_n(to, kv.key_dim, 0.0F);
        } else {
          std::memcpy(to, latent_row(kv, slice.pages, position - 1), bytes);
        }
      }
    });
    out += int64_t{slice.rows} * kv.key_dim;
  }
}

void MlaOp::store_row(const KvView& kv, const float* x, std::byte* to) const {
  switch (kv.type) {
    case KvType::kF32:
      std::memcpy(to, x, static_cast<size_t>(kv.key_dim) * sizeof(float));
      return;
    case KvType::kF16:
      kernels_.to_half(x, kv.key_dim, reinterpret_cast<uint16_t*>(to));
      return;
    case KvType::kBF16:
      kernels_.to_bf16(x, kv.key_dim, reinterpret_cast<uint16_t*>(to));
      return;
    case KvType::kQ8_0: {
      auto* values = reinterpret_cast<int8_t*>(to);
      const int32_t blocks = (kv.key_dim + kKvBlock - 1) / kKvBlock;
      auto* scales = reinterpret_cast<uint16_t*>(to + int64_t{blocks} * kKvBlock);
      for (int32_t begin = 0; begin < kv.key_dim; begin += kKvBlock) {
        scales[begin / kKvBlock] = kernels_.to_q8_0(x + begin, std::min(kKvBlock, kv.key_dim - begin), values + begin);
      }
      return;
    }
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  CAIRN_CHECK(false && "rows of MlaOperations are not in pairs");
}

}  // namespace cairn::kernels::cpu
