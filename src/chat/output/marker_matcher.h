/// Finds fixed texts in a stream of bytes, and holds bytes back only as long as they may become one of them.
#pragma once

#include <bitset>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// No marker of a set may be part of another one, but for its end: where both end, the longer is found. Time is linear
/// in the text, for a given set.
class MarkerMatcher {
 public:
  MarkerMatcher() = default;
  /// Empty markers are never found. Their texts outlive the matcher.
  explicit MarkerMatcher(std::span<const std::string_view> markers);

  /// Gives the index of the marker that is complete with `byte`, or -1. Appends to `text` what is known to be none.
  int push(char byte, std::string& text);
  std::string_view held() const { return held_; }
  void clear() { held_.clear(); }

 private:
  std::vector<std::string_view> markers_;
  std::bitset<256> first_;  // bytes that markers begin with
  std::string held_;        // a proper prefix of some marker
};

}  // namespace cairn
