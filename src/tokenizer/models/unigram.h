/// SentencePiece unigram ("t5"): of all segmentations of the normalised text into tokens, the one with the highest
/// total score.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/charsmap.h"
#include "tokenizer/models/trie.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace cairn::tokenizer {

class UnigramTokenizer final : public VocabularyTokenizer {
 public:
  struct Config {
    bool add_space_prefix = false;  ///< whether a space is added before a text
    /// Whether runs of spaces are reduced to one and spaces at both ends are removed.
    bool remove_extra_whitespaces = false;
  };
  /// Errors: kCorruptFile (no scores, no unknown token).
  static Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary, SpecialTokens special, Charsmap charsmap,
                                                 Config config);

 private:
  UnigramTokenizer(Vocabulary vocabulary, SpecialTokens special, Charsmap charsmap, Config config);
  Result<void> encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const override;
  std::string normalise(std::string_view text, bool after_special) const;

  Charsmap charsmap_;
  Config config_;
  Trie tokens_;
  Trie user_defined_;
  float unknown_score_ = 0;
};

}  // namespace cairn::tokenizer
