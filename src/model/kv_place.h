/// Where a layer's keys and values are in the layout.
#pragma once

#include <cstdint>

#include "cache/kv_layout.h"

namespace cairn::model {

/// The keys of an indexer are in the layer behind.
struct KvPlace {
  int32_t group = 0;
  int32_t layer = 0;
};

/// The group of a kind, a window and a device, which is added if it is not there.
int32_t kv_group_of(cache::KvKind kind, int32_t window, int32_t device, cache::KvLayout& layout);
/// Adds a layer to such a group.
KvPlace add_kv_layer(cache::KvKind kind, int32_t window, int32_t device, const cache::KvLayer& layer,
                     cache::KvLayout& layout);

}  // namespace cairn::model
