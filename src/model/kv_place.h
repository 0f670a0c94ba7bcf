/// Where a layer's keys and values are in the layout.
#pragma once

#include <cstdint>

namespace cairn {

/// The keys of an indexer are in the layer behind.
struct KvPlace {
  int32_t group = 0;
  int32_t layer = 0;
};

}  // namespace cairn
