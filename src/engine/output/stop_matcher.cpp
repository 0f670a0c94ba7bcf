#include "engine/output/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace cairn::engine {

StopMatcher::StopMatcher(std::span<const std::string> stops) {
  patterns_.reserve(stops.size());
  for (const std::string& stop : stops) {
    Pattern pattern{stop, std::vector<uint16_t>(stop.size() + 1, 0), 0};
    for (size_t n = 1; n < stop.size(); ++n) {
      size_t length = pattern.fallback[n];
      while (length > 0 && stop[length] != stop[n]) length = pattern.fallback[length];
      if (stop[length] == stop[n]) ++length;
      pattern.fallback[n + 1] = static_cast<uint16_t>(length);
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::advance(Pattern& pattern, char byte) {
  while (pattern.matched > 0 && pattern.text[pattern.matched] != byte) {
    pattern.matched = pattern.fallback[pattern.matched];
  }
  if (pattern.text[pattern.matched] == byte) ++pattern.matched;
}

int32_t StopMatcher::push(std::string_view text, std::string& out) {
  if (patterns_.empty()) {
    out += text;
    return -1;
  }
  const size_t held = held_.size();
  held_ += text;
  for (size_t i = held; i < held_.size(); ++i) {
    int32_t found = -1;
    size_t length = 0;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      advance(pattern, held_[i]);
      if (pattern.matched < pattern.text.size() || pattern.text.size() <= length) continue;
      found = static_cast<int32_t>(p);
      length = pattern.text.size();
    }
    if (found >= 0) {
      out.append(held_, 0, i + 1 - length);
      held_.clear();
      return found;
    }
  }
  size_t hold = 0;
  for (const Pattern& pattern : patterns_) hold = std::max(hold, pattern.matched);
  out.append(held_, 0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return -1;
}

size_t IndentMatcher::push(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool blank = text[i] == ' ' || text[i] == '\t';
    if (indent_ >= 0 && blank) ++indent_;
    if (indent_ >= 0 && !blank) {
      if (indent_ < least_) return i;
      indent_ = -1;
    }
    if (text[i] != '\n') continue;
    line_ended_ = true;
    indent_ = 0;
  }
  return text.size();
}

std::string StopMatcher::take_held() { return std::exchange(held_, {}); }

}  // namespace cairn::engine
