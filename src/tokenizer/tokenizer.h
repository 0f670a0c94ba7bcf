/// Converts between text and token ids, as the model's file defines.
///
/// Kinds (tokenizer.ggml.model): "gpt2" and "gemma4" byte-pair encoding, "llama" SentencePiece BPE with byte fallback,
/// "t5" SentencePiece unigram, "bert" WordPiece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/text/byte_range.h"
#include "gguf/reader.h"

namespace cairn::tokenizer {

struct EncodeOptions {
  bool add_special = false;    ///< add BOS and EOS as the file says
  bool parse_special = false;  ///< "<|im_start|>" in the text becomes the special token rather than plain text
  /// The token before the text, for a prompt that is encoded in pieces: cut after special tokens, a text gets the
  /// tokens that it has as a whole, and a continuation gets no leading space of SentencePiece's.
  TokenId after = kNoToken;
  /// With parse_special: ranges of foreign text, no byte of which becomes part of a control token; the rest is encoded
  /// as without. Ascending, not touching; outlives the call.
  std::span<const ByteRange> foreign = {};
};

/// Tokens of fill-in-the-middle prompts; kNoToken where there is none.
struct FillInMiddleTokens {
  TokenId prefix = kNoToken;
  TokenId suffix = kNoToken;
  TokenId middle = kNoToken;
  TokenId repository = kNoToken;  ///< before a repository's name
  TokenId file = kNoToken;        ///< before a file's name
};

/// Special tokens of a vocabulary; kNoToken where there is none.
///
/// A text is [bos] text [eos], two texts that are scored together are [bos] first [eos] [separator] second [eos]; the
/// add_* keys of a file say which of them its model was trained with. What published converters write, by kind:
///
/// | tokenizer.ggml.model | bos, eos, sep | a text | a pair | where a file leaves the keys out |
/// |---|---|---|---|---|
/// | bert (BERT, DistilBERT) | true, true, false; older files none | [CLS] a [SEP] | [CLS] a [SEP] b [SEP] | the same |
/// | gpt2 (RoBERTa) | true, true, true | <s> a </s> | <s> a </s></s> b </s> | no bos, no eos; sep for RoBERTa's |
/// | t5 (XLM-RoBERTa) | true, true, true; older files no sep | <s> a </s> | <s> a </s></s> b </s> | eos and sep |
/// | t5 (T5) | false, true | a </s> | | eos |
/// | llama, gemma4 | true, false | <s> a | | bos |
/// | gpt2 (decoders) | as their tokenizer does; eos for embedders such as Qwen3 | | by a template | bos by
/// pre-tokenizer |
///
/// A text of WordPiece ("bert") is closed by [SEP] whatever the keys say: there, eos is the separator.
struct SpecialTokens {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId eot = kNoToken;  ///< end of turn
  TokenId unknown = kNoToken;
  TokenId separator = kNoToken;
  TokenId padding = kNoToken;
  TokenId mask = kNoToken;
  FillInMiddleTokens fim;
  bool add_bos = false;
  bool add_eos = false;
  bool add_separator = false;  ///< between the texts of a pair
};

/// Immutable once loaded; thread-safe.
class Tokenizer {
 public:
  /// Errors: kUnsupported (model or pre-tokenizer; the supported ones are listed), kCorruptFile (with the key).
  static Result<std::unique_ptr<Tokenizer>> load(const gguf::Metadata& metadata);
  virtual ~Tokenizer() = default;

  /// Errors: kInvalidArgument, for byte-pair vocabularies only, if the text has a byte sequence that no character can
  /// have (such as f4 90 80 80); kTooLarge over 256 MiB. Takes O(n log n) time in the text.
  virtual Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options) const = 0;

  /// encode_first() gives the first text of a pair with all tokens before the second one, encode_second() the second
  /// with the tokens that end it; see SpecialTokens. Names of special tokens in them are plain text. Errors: those of
  /// encode().
  Result<std::vector<TokenId>> encode_first(std::string_view text) const;
  Result<std::vector<TokenId>> encode_second(std::string_view text) const;

  /// The bytes that a token stands for in running text, which need not be whole characters. A control or unknown token
  /// gives its text if `render_special`, else nothing; a user-defined one always gives its text. An id out of range
  /// gives nothing.
  virtual std::string_view piece(TokenId id, bool render_special) const = 0;

  /// All pieces joined, with the vocabulary's own rules for a whole text: see drops_first_space() and tidies_spaces().
  virtual std::string decode(std::span<const TokenId> ids, bool render_special) const = 0;

  /// A text of n bytes of UTF-8 has at least n / this tokens. 0: no such bound is known.
  virtual size_t text_bytes_per_token() const { return 0; }

  virtual int32_t size() const = 0;
  virtual const SpecialTokens& special() const = 0;
  /// Whether the token ends generation: EOS, end of turn and the like.
  virtual bool ends_generation(TokenId id) const = 0;
  /// Whether it is a control or user-defined token.
  virtual bool is_special(TokenId id) const = 0;
  /// Whether it is a control token: a text that spells it becomes that token only with EncodeOptions::parse_special.
  virtual bool is_control(TokenId id) const { return is_special(id) && piece(id, false).empty(); }
  /// Text of the entry as the file has it ("Ġthe"), for inspection and templates' bos_token.
  virtual std::string_view entry(TokenId id) const = 0;

  /// Whether decode() drops a space at the start, which SentencePiece added.
  virtual bool drops_first_space() const { return false; }
  /// Whether decode() drops spaces before punctuation and contractions (tidy_spaces.h), as the vocabulary's own decoder
  /// does.
  virtual bool tidies_spaces() const { return false; }
};

}  // namespace cairn::tokenizer
