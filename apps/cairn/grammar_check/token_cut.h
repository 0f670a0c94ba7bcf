/// Cuts texts into tokens, in the ways in which `cairn grammar check` is asked to.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

struct TokenCut {
  enum class Way : uint8_t {
    kCanonical,  ///< as the tokenizer does
    kBytes,      ///< as many tokens as possible: one for each byte, where the vocabulary has all bytes
    kRandom,     ///< any tokens that give the text, drawn with `seed`
  };
  Way way = Way::kCanonical;
  uint64_t seed = 0;
};

/// Knows the tokens of a vocabulary by their bytes. The tokenizer must outlive it.
class TokenCutter {
 public:
  explicit TokenCutter(const tokenizer::Tokenizer& tokenizer);

  /// Tokens whose bytes are the text; none of them is special. Errors: kInvalidArgument (no tokens give the text),
  /// those of Tokenizer::encode.
  Result<std::vector<TokenId>> cut(std::string_view text, const TokenCut& how) const;

 private:
  Result<std::vector<TokenId>> canonical(std::string_view text) const;

  const tokenizer::Tokenizer& tokenizer_;
  std::unordered_map<std::string_view, TokenId> by_bytes_;
  std::vector<size_t> lengths_;  // that tokens have, in order
  TokenId ordinary_ = kNoToken;  // some token that is not special
};

}  // namespace cairn
