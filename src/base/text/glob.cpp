#include "base/text/glob.h"

#include <cstddef>

namespace cairn {

bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t in_pattern = 0, in_text = 0;
  // The last '*', and where what it stands for would end next: a mismatch makes it longer by a byte.
  size_t star = std::string_view::npos, resume = 0;
  while (in_text < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      resume = in_text;
    } else if (in_pattern < pattern.size() && (pattern[in_pattern] == '?' || pattern[in_pattern] == text[in_text])) {
      ++in_pattern;
      ++in_text;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      in_text = ++resume;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern.size();
}

}  // namespace cairn
