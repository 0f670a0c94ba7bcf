/// Finds fixed texts in a stream of bytes, and holds bytes back only as long as they may become one of them.
#pragma once

#include <bitset>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::chat {

/// No marker of a set may be part of another one, except at its end: if both end at the same byte, the longer one is
/// found. Takes linear time in the text, for a given set.
class MarkerMatcher {
 public:
  MarkerMatcher() = default;
  /// Empty markers are never found. Their texts outlive the matcher.
  explicit MarkerMatcher(std::span<const std::string_view> markers);

  /// Returns the index of the marker that is complete with `byte`, or -1. Appends to `text` what cannot become a marker
  /// any more.
  int push(char byte, std::string& text);
  std::string_view held() const { return held_; }
  void clear() { held_.clear(); }

 private:
  std::vector<std::string_view> markers_;
  std::bitset<256> first_;  // first bytes of markers
  std::string held_;        // a proper prefix of some marker
};

}  // namespace cairn::chat
