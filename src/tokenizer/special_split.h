/// Finds special tokens in a text, before any other rule looks at it.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/text/byte_range.h"
#include "tokenizer/models/trie.h"
#include "tokenizer/vocabulary.h"

namespace cairn {

/// A special token, or plain text between two of them (token == kNoToken, text not empty).
struct Fragment {
  TokenId token = kNoToken;
  std::string_view text;
};

/// Control, unknown and user-defined tokens. Longer ones win over shorter ones wherever they overlap, of the same
/// length the earlier in the text. Immutable, thread-safe.
class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocabulary& vocabulary);

  /// Without `parse_special`, and with it in the ranges `foreign` of the text, only user-defined tokens are found:
  /// those are part of the language rather than of its control. White space beside a token that strips it is dropped.
  /// `vocabulary` is that of the constructor. Time O(n log n), in rare texts times the number of special tokens that
  /// begin alike.
  std::vector<Fragment> split(const Vocabulary& vocabulary, std::string_view text, bool parse_special,
                              std::span<const ByteRange> foreign = {}) const;

 private:
  /// Tokens as a trie, with the token next shorter than a node's on the way to it.
  struct Finder {
    Trie trie;
    std::vector<int32_t> shorter;  // per token: the longest token that begins it, or -1
  };
  static Finder make_finder(const Vocabulary& vocabulary, bool user_defined_only);

  Finder user_defined_;
  Finder all_;
};

/// `text` without the white space at its start that `before`, the token in front of it, strips.
std::string_view stripped_after(const Vocabulary& vocabulary, TokenId before, std::string_view text);

}  // namespace cairn
