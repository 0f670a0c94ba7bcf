/// Cuts a text into the words on which byte-pair merging works, as in the vocabulary's training.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn::tokenizer {

/// One pass over all words so far. Each match of a pattern becomes a word, and so does the text between two matches.
struct SplitRule {
  enum class Kind {
    kPattern,               ///< a regular expression
    kThrees,                ///< runs of decimal digits of any script, cut in threes from the right
    kThreesBeforeBoundary,  ///< the same, but only runs that are not followed by a letter, mark, number or underscore
    kBeforeThrees           ///< only the cuts in front of a multiple of three digits, and none around a run
  };
  Kind kind = Kind::kPattern;
  /// PCRE2 syntax, in UTF-8. \s and \S mean Unicode's White_Space property.
  std::string_view pattern;
};

/// The meaning of a value of tokenizer.ggml.pre.
struct PreTokenizerSpec {
  std::span<const SplitRule> rules;
  bool ignore_merges = false;  ///< whether a word that is an entry becomes that token, whatever merging would give
  bool add_bos = false;        ///< default, which the file may override
  bool add_separator = false;  ///< between the texts of a pair; default, which the file may override
  bool nfc = false;            ///< whether texts are first converted to Unicode's normal form C
};

struct NamedPreTokenizer {
  std::string_view name;
  PreTokenizerSpec spec;
};

/// The whole table, sorted by name.
std::span<const NamedPreTokenizer> pre_tokenizers();
/// nullptr for an unknown name.
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

  /// Replaces `ends` by the offsets where words end, ascending; the last is text.size(). `text` is UTF-8, surrogates
  /// allowed, of less than 4 GiB. Takes O(n) time for every rule of the table. Errors: kTooLarge (a match needs too
  /// much work).
  Result<void> split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  struct Rule;
  explicit PreTokenizer(std::vector<Rule> rules);
  std::vector<Rule> rules_;
};

}  // namespace cairn::tokenizer
