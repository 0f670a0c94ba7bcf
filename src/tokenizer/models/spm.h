/// SentencePiece byte-pair encoding ("llama"): characters merge as long as a token of the joined text exists, the best
/// score first; what is no token becomes bytes.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/models/merge.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace cairn {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  /// `add_space_prefix`: a text begins with a space that is not written. Errors: kCorruptFile (no scores).
  static Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary, SpecialTokens special, bool add_space_prefix);
  size_t text_bytes_per_token() const override { return loses_bytes_ ? 0 : piece_bytes_max() * kRewrittenBytes; }

 private:
  SpmTokenizer(Vocabulary vocabulary, SpecialTokens special, Decoding decoding);
  Result<void> encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const override;
  /// Merges the symbols of a stretch of `text` and appends its tokens; leaves none.
  void take_tokens(std::string_view text, MergeScratch& scratch, std::vector<TokenId>& out) const;

  std::bitset<256> joins_space_;  // bytes that stand before an escaped space within some token
  bool add_space_prefix_;
  bool loses_bytes_ = false;  // there is no token for some
  std::array<TokenId, 256> byte_token_{};
};

}  // namespace cairn
