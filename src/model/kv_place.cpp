#include "model/kv_place.h"

#include <algorithm>

namespace cairn {

int32_t kv_group_of(KvKind kind, int32_t window, int32_t device, KvLayout& layout) {
  const auto same = [&](const KvGroup& group) {
    return group.kind == kind && group.window == window && group.device == device;
  };
  const auto found = std::ranges::find_if(layout.groups, same);
  const auto number = static_cast<int32_t>(found - layout.groups.begin());
  if (found == layout.groups.end()) {
    layout.groups.push_back({.kind = kind, .window = window, .layers = {}, .device = device});
  }
  return number;
}

KvPlace add_kv_layer(KvKind kind, int32_t window, int32_t device, const KvLayer& layer, KvLayout& layout) {
  const int32_t group = kv_group_of(kind, window, device, layout);
  layout.groups[group].layers.push_back(layer);
  return {group, static_cast<int32_t>(layout.groups[group].layers.size()) - 1};
}

}  // namespace cairn
