/// The special tokens of a conversation: from the file's keys and, if it lacks them, from the texts that published
/// vocabularies use.
#pragma once

#include "base/error.h"
#include "gguf/reader.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace cairn::tokenizer {

/// Defaults of a kind of vocabulary, which the file may override.
struct SpecialDefaults {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  TokenId separator = kNoToken;
  TokenId padding = kNoToken;
  TokenId mask = kNoToken;
  bool add_bos = false;
  bool add_eos = false;
  bool add_separator = false;
  bool separator_closes = false;  ///< whether every text ends with eos, which is the separator, whatever the file says
};

/// Reads the special tokens, makes control tokens of well-known texts that a file lists with another type, and marks in
/// `vocabulary` which tokens end generation and which strip white space. An id outside the vocabulary is logged and
/// counts as missing: published files have such padding tokens. Errors: kCorruptFile (a key of another type;
/// add_bos_token, add_eos_token or add_sep_token without the token).
Result<SpecialTokens> load_special_tokens(const gguf::Metadata& metadata, const SpecialDefaults& defaults,
                                          Vocabulary& vocabulary);

}  // namespace cairn::tokenizer
