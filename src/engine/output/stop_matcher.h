/// Finds stop strings in text that comes in parts, and holds text back only as long as it could still become one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::engine {

/// The text let through and the stop string found do not depend on how the text is cut into parts. The first stop
/// string to be complete wins; of two complete at the same character, the longer.
class StopMatcher {
 public:
  /// Each stop string has 1 .. kStopBytesMax bytes.
  explicit StopMatcher(std::span<const std::string> stops);

  /// Appends to `out` what is now known not to belong to a stop string. Gives the index of the stop string that is
  /// complete, or -1; after one, the rest of the text is dropped and nothing may be pushed.
  int32_t push(std::string_view text, std::string& out);
  /// At the end of the text, returns what was held back: text that might have become a stop string.
  std::string take_held();

 private:
  struct Pattern {
    std::string text;
    // fallback[n]: length of the longest proper prefix of text that is also a suffix of its first n bytes (Knuth,
    // Morris and Pratt), so that each byte costs constant time on average.
    std::vector<uint16_t> fallback;
    size_t matched = 0;  // length of the stop string's prefix with which the pushed text ends
  };
  static void advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;  // text held back, as long as the longest `matched`
};

/// Finds the line that is indented less than it must be. The first line may be as it is.
class IndentMatcher {
 public:
  /// 0: any line may be as it is.
  explicit IndentMatcher(int32_t least) : least_(least) {}

  /// Reads the text that comes next. Gives how many bytes of it come before the first character of such a line, of
  /// which even an empty one is; all of them if there is none.
  size_t push(std::string_view text);
  /// Whether a line has ended.
  bool line_ended() const { return line_ended_; }

 private:
  int32_t least_;
  int32_t indent_ = -1;  // blanks of the line so far; -1: the line is further than that
  bool line_ended_ = false;
};

}  // namespace cairn::engine
