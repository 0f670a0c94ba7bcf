/// WordPiece ("bert"): words of the cleaned text are cut into the longest matching entries from left to right. Entries
/// at the beginning of a word begin with "▁".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/trie.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace cairn::tokenizer {

class WordPieceTokenizer final : public VocabularyTokenizer {
 public:
  struct Config {
    bool lowercase = true;
    bool strip_accents = true;
  };
  /// Errors: kCorruptFile (no unknown token).
  static Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary, SpecialTokens special, Config config);

 private:
  WordPieceTokenizer(Vocabulary vocabulary, SpecialTokens special, Config config);
  Result<void> encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const override;
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

  Config config_;
  Trie tokens_;
};

}  // namespace cairn::tokenizer
