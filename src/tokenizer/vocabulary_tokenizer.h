/// Base of all kinds of tokenizers: the vocabulary, special tokens in texts, decoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/special_split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace cairn::tokenizer {

/// Maximum bytes of text for encode(). Positions are 32 bits wide, and a space becomes the three bytes of "▁".
inline constexpr size_t kTextBytesMax = 256u << 20;

/// Maximum bytes of a text for one byte that is tokenised: "▁" for a space, or a letter with marks for the composed
/// letter (Unicode's compositions are at least a third of the length).
inline constexpr size_t kRewrittenBytes = 4;

class VocabularyTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options) const final;
  std::string_view piece(TokenId id, bool render_special) const final;
  std::string decode(std::span<const TokenId> ids, bool render_special) const final;
  int32_t size() const final { return vocabulary_.size(); }
  const SpecialTokens& special() const final { return special_; }
  bool ends_generation(TokenId id) const final { return vocabulary_.contains(id) && vocabulary_.ends_generation(id); }
  bool is_special(TokenId id) const final;
  bool is_control(TokenId id) const final;
  std::string_view entry(TokenId id) const final;
  bool drops_first_space() const final { return drops_first_space_; }
  bool tidies_spaces() const final { return tidies_spaces_; }

 protected:
  struct Decoding {
    bool drops_first_space = false;
    bool tidies_spaces = false;
    bool prefix_only_at_start = false;  ///< no SentencePiece space after special tokens
    bool underscore_is_space = false;   ///< whether "▁" in a text is read as a space
  };
  VocabularyTokenizer(Vocabulary vocabulary, SpecialTokens special, Decoding decoding);

  /// Appends the tokens of plain text, which is not empty. `after_special`: whether nothing or a special token is
  /// before it, if the vocabulary distinguishes that.
  virtual Result<void> encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Bytes of the longest piece; 0 if tokens include white space beside them.
  size_t piece_bytes_max() const { return piece_bytes_max_; }

 private:
  /// Whether it is one of the tokens that the splitter finds.
  bool parts_texts(TokenId id) const;

  Vocabulary vocabulary_;
  SpecialTokens special_;
  bool drops_first_space_;
  bool tidies_spaces_;
  bool prefix_only_at_start_;
  bool underscore_is_space_;
  SpecialSplitter splitter_;
  size_t piece_bytes_max_ = 0;
};

/// `text` with every space written as "▁", appended to `out`.
void append_escaped_spaces(std::string& out, std::string_view text);

}  // namespace cairn::tokenizer
