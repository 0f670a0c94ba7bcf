/// The KV cache per token: groups of layers whose pages are allocated and freed together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kv.h"

namespace cairn::cache {

enum class KvKind {
  kFull,    ///< every position is kept
  kWindow,  ///< positions before the window are never read again
  kLatent,  ///< as kFull, with one compressed row per token in place of keys and values of all heads (MLA)
  kState,   ///< one slot per sequence, changed by every row (recurrent layers); valid only as a whole, at one position
};

/// The keys and values of one layer. A latent layer has value_dim 0.
struct KvLayer {
  int32_t kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t tokens_per_row = 1;                ///< as in KvView
  std::optional<kernels::KvType> type = {};  ///< the layer's own type; nullopt: the layout's
};

struct KvGroup {
  KvKind kind = KvKind::kFull;
  int32_t window = 0;  ///< size of the window in tokens, for kWindow
  std::vector<KvLayer> layers;
  int64_t state_bytes = 0;  ///< of a slot, for kState, which has no layers
  int32_t device = 0;       ///< which of the model's devices has its pages and computes with them
  /// Whether the model's tokens do not depend on the window (of kWindow). A sequence resumes without the window's pages
  /// where they have been evicted; they are kNoPage in its table then.
  bool optional = false;
};

/// Maximum number of groups of a layout.
inline constexpr int32_t kKvGroupsMax = 32;

/// A page of a group holds kPageTokens positions of all its layers, one layer's part after the other; of a kState group
/// it is one slot.
struct KvLayout {
  kernels::KvType type = kernels::KvType::kF32;
  std::vector<KvGroup> groups;

  kernels::KvType type_of(const KvLayer& layer) const { return layer.type.value_or(type); }
  /// Bytes of one layer in a page, a multiple of 64: rows_per_kv_page() rows of keys and of values for every KV head.
  int64_t layer_bytes(const KvLayer& layer) const;
  /// Bytes of a page of the group, a multiple of 64.
  int64_t page_bytes(const KvGroup& group) const;
  /// Bytes that one more position takes in all groups but kState, or in those of one device.
  int64_t token_bytes(std::optional<int32_t> device = {}) const;
};

/// Number of pages that hold `tokens` positions.
constexpr int32_t pages_for(int64_t tokens) {
  return static_cast<int32_t>((tokens + kernels::kPageTokens - 1) / kernels::kPageTokens);
}

}  // namespace cairn::cache
