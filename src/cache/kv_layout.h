/// What a model keeps per token: groups of layers whose keys and values live and die together.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace cairn {

enum class KvKind {
  kFull,    ///< every position stays
  kWindow,  ///< positions behind the window are never read again
};

/// One layer's keys and values.
struct KvLayer {
  int32_t kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
};

struct KvGroup {
  KvKind kind = KvKind::kFull;
  int32_t window = 0;  ///< tokens, for kWindow
  std::vector<KvLayer> layers;
};

/// A page of a group holds kPageTokens positions of all its layers, one layer's part after the other.
struct KvLayout {
  KvType type = KvType::kF32;
  std::vector<KvGroup> groups;

  /// Bytes of one layer's part of a page: (key_dim + value_dim) * kv_heads * kPageTokens * element.
  int64_t layer_bytes(const KvLayer& layer) const;
  /// Bytes of a page of the group, a multiple of 64.
  int64_t page_bytes(const KvGroup& group) const;
  /// Bytes that one more position costs over all groups.
  int64_t token_bytes() const;
};

}  // namespace cairn
