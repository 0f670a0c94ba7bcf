#include "model/kv_place.h"

#include <algorithm>

namespace cairn::model {

int32_t kv_group_of(cache::KvKind kind, int32_t window, int32_t device, cache::KvLayout& layout) {
  const auto same = [&](const cache::KvGroup& group) {
    return group.kind == kind && group.window == window && group.device == device;
  };
  const auto found = std::ranges::find_if(layout.groups, same);
  const auto number = static_cast<int32_t>(found - layout.groups.begin());
  if (found == layout.groups.end()) {
    layout.groups.push_back({.kind = kind, .window = window, .layers = {}, .device = device});
  }
  return number;
}

KvPlace add_kv_layer(cache::KvKind kind, int32_t window, int32_t device, const cache::KvLayer& layer,
                     cache::KvLayout& layout) {
  const int32_t group = kv_group_of(kind, window, device, layout);
  layout.groups[group].layers.push_back(layer);
  return {group, static_cast<int32_t>(layout.groups[group].layers.size()) - 1};
}

}  // namespace cairn::model
