/// Finds special tokens in a text, before any other rule is applied.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/text/byte_range.h"
#include "tokenizer/models/trie.h"
#include "tokenizer/vocabulary.h"

namespace cairn::tokenizer {

/// A special token, or plain text between two of them (token == kNoToken, text not empty).
struct Fragment {
  TokenId token = kNoToken;
  std::string_view text;
};

/// Finds control, unknown and user-defined tokens. Of overlapping ones the longest wins, of equal lengths the earliest.
/// Immutable, thread-safe.
class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocabulary& vocabulary);

  /// Without `parse_special`, and with it in the ranges `foreign` of the text, only user-defined tokens are found, as
  /// they are part of the language and not control tokens. White space beside a token that strips it is dropped.
  /// `vocabulary` is that of the constructor. Takes O(n log n) time, in rare texts times the number of special tokens
  /// with a common prefix.
  std::vector<Fragment> split(const Vocabulary& vocabulary, std::string_view text, bool parse_special,
                              std::span<const ByteRange> foreign = {}) const;

 private:
  /// The tokens as a trie, and for each token the longest other one that is its prefix.
  struct Finder {
    Trie trie;
    std::vector<int32_t> shorter;  // [token]: the longest token that is its prefix, or -1
  };
  static Finder make_finder(const Vocabulary& vocabulary, bool user_defined_only);

  Finder user_defined_;
  Finder all_;
};

/// `text` without the white space at its start that is stripped by `before`, the token before it.
std::string_view stripped_after(const Vocabulary& vocabulary, TokenId before, std::string_view text);

}  // namespace cairn::tokenizer
