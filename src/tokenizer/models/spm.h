/// SentencePiece byte-pair encoding ("llama"): characters merge as long as a token of the joined text exists, the best
/// score first; the rest becomes byte tokens.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/models/merge.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace cairn::tokenizer {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  /// `add_space_prefix`: whether a space is added before a text. Errors: kCorruptFile (no scores).
  static Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary, SpecialTokens special, bool add_space_prefix);
  size_t text_bytes_per_token() const override { return loses_bytes_ ? 0 : piece_bytes_max() * kRewrittenBytes; }

 private:
  SpmTokenizer(Vocabulary vocabulary, SpecialTokens special, Decoding decoding);
  Result<void> encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const override;
  /// Merges the symbols of a part of `text`, appends its tokens and clears the symbols.
  void take_tokens(std::string_view text, MergeScratch& scratch, std::vector<TokenId>& out) const;

  std::bitset<256> joins_space_;  // bytes that come before an escaped space within some token
  bool add_space_prefix_;
  bool loses_bytes_ = false;  // whether some bytes have no token
  std::array<TokenId, 256> byte_token_{};
};

}  // namespace cairn::tokenizer
