#include "cache/kv_layout.h"

namespace cairn::cache {

namespace {

constexpr int64_t kBlockAlignment = 64;

constexpr int64_t aligned(int64_t bytes) { return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment; }

}  // namespace

int64_t KvLayout::layer_bytes(const KvLayer& layer) const {
  const kernels::KvType stored = type_of(layer);
  const int64_t row =
      (kernels::kv_row_bytes(stored, layer.key_dim) + kernels::kv_row_bytes(stored, layer.value_dim)) * layer.kv_heads;
  return aligned(row * kernels::rows_per_kv_page(layer.tokens_per_row));
}

int64_t KvLayout::page_bytes(const KvGroup& group) const {
  if (group.kind == KvKind::kState) return aligned(group.state_bytes);
  int64_t bytes = 0;
  for (const KvLayer& layer : group.layers) bytes += layer_bytes(layer);
  return aligned(bytes);
}

int64_t KvLayout::token_bytes(std::optional<int32_t> device) const {
  int64_t bytes = 0;
  for (const KvGroup& group : groups) {
    if (group.kind != KvKind::kState && group.device == device.value_or(group.device)) bytes += page_bytes(group);
  }
  return bytes / kernels::kPageTokens;
}

}  // namespace cairn::cache
