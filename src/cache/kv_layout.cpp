#include "cache/kv_layout.h"

namespace cairn {

namespace {
constexpr int64_t kAlignment = 64;
}

int64_t KvLayout::layer_bytes(const KvLayer& layer) const {
  return (int64_t{layer.key_dim} + layer.value_dim) * layer.kv_heads * kPageTokens * kv_element_bytes(type);
}

int64_t KvLayout::page_bytes(const KvGroup& group) const {
  int64_t bytes = 0;
  for (const KvLayer& layer : group.layers) bytes += layer_bytes(layer);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t KvLayout::token_bytes() const {
  int64_t bytes = 0;
  for (const KvGroup& group : groups) bytes += page_bytes(group);
  return bytes / kPageTokens;
}

}  // namespace cairn
