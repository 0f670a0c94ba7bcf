/// Cuts a text into the words that byte-pair merging works on, as the vocabulary was trained.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn {

/// One pass over all words so far. What a pattern matches becomes a word, and what lies between two matches does.
struct SplitRule {
  enum class Kind {
    kPattern,               ///< a regular expression
    kThrees,                ///< runs of decimal digits of any script, cut in threes from the right
    kThreesBeforeBoundary,  ///< the same, but only runs that no letter, mark, number or underscore follows
    kBeforeThrees           ///< only the cuts in front of a multiple of three digits, and none around a run
  };
  Kind kind = Kind::kPattern;
  /// PCRE2 syntax, in UTF-8. \s and \S mean Unicode's White_Space property.
  std::string_view pattern;
};

/// What the value of tokenizer.ggml.pre stands for.
struct PreTokenizerSpec {
  std::span<const SplitRule> rules;
  bool ignore_merges = false;  ///< a word that is an entry is that token, whatever merging would give
  bool add_bos = false;        ///< unless the file says otherwise
  bool add_separator = false;  ///< between the texts of a pair, unless the file says otherwise
  bool nfc = false;            ///< texts are brought to Unicode's normal form C first
};

/// nullptr for a name that is not in the table.
const PreTokenizerSpec* find_pre_tokenizer(std::string_view name);
/// All names of the table, for messages: "bloom, chatglm-bpe, ...".
std::string pre_tokenizer_names();

/// Immutable, thread-safe.
class PreTokenizer {
 public:
  /// Errors: kInternal (a pattern of the table does not compile).
  static Result<PreTokenizer> compile(std::span<const SplitRule> rules);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Replaces `ends` by the offsets where words end, ascending; the last is text.size(). `text` is in UTF-8, surrogates
  /// allowed, less than 4 GiB. Time O(n) for every rule of the table. Errors: kTooLarge (a match needs too much work).
  Result<void> split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  struct Rule;
  explicit PreTokenizer(std::vector<Rule> rules);
  std::vector<Rule> rules_;
};

}  // namespace cairn
