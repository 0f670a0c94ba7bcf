#include "chat/tool_calls/marker_matcher.h"

#include "base/check.h"

namespace cairn::chat {

MarkerMatcher::MarkerMatcher(std::span<const std::string_view> markers) : markers_(markers.begin(), markers.end()) {
  for (size_t i = 0; i < markers_.size(); ++i) {
    if (markers_[i].empty()) continue;
    first_.set(static_cast<unsigned char>(markers_[i][0]));
    for (size_t j = 0; j < markers_.size(); ++j)
      CAIRN_DCHECK(i == j || markers_[j].empty() || markers_[i].find(markers_[j]) == std::string_view::npos ||
                   markers_[i].find(markers_[j]) == markers_[i].size() - markers_[j].size());
  }
}

int MarkerMatcher::push(char byte, std::string& text) {
  if (held_.empty() && !first_.test(static_cast<unsigned char>(byte))) {
    text += byte;
    return -1;
  }
  held_ += byte;
  for (; !held_.empty(); held_.erase(0, 1)) {
    bool may_become_one = false;
    for (size_t i = 0; i < markers_.size(); ++i) {
      if (!markers_[i].starts_with(held_)) continue;
      may_become_one = true;
      if (markers_[i].size() > held_.size()) continue;
      held_.clear();
      return static_cast<int>(i);
    }
    if (may_become_one) return -1;
    text += held_[0];
  }
  return -1;
}

}  // namespace cairn::chat
