/// Which tokens have a part in a conversation: from the file's keys and, where files leave them out, from the texts
/// that published vocabularies use.
#pragma once

#include "base/error.h"
#include "gguf/reader.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace cairn {

/// What holds for a kind of vocabulary unless the file says otherwise.
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
  bool separator_closes = false;  ///< every text, whatever the file says: eos is the separator
};

/// Reads the special tokens, makes control tokens of well-known texts that a file lists under another type, and marks
/// in `vocabulary` what ends generation and what strips white space. An id beyond the vocabulary is logged and counts
/// as missing: published files have such padding tokens. Errors: kCorruptFile (a key of another type; add_bos_token,
/// add_eos_token or add_sep_token without the token).
Result<SpecialTokens> load_special_tokens(const gguf::Metadata& metadata, const SpecialDefaults& defaults,
                                          Vocabulary& vocabulary);

}  // namespace cairn
