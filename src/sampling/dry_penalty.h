/// DRY: what a token would make longer, of what was said before.
///
/// Source: p-e-w, "DRY: A modern repetition penalty", oobabooga/text-generation-webui pull request 5677.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"
#include "tokenizer/tokenizer.h"

namespace cairn::sampling {

/// State of one request; it follows from the request's tokens alone. Not thread-safe.
class DryPenalty {
 public:
  struct Match {
    TokenId token;   ///< goes on with a sequence that occurred already
    int32_t length;  ///< tokens at the end that the longest such sequence has, without `token`
  };

  /// `tokenizer` gives the text of tokens, for breakers; null: nothing breaks a sequence. It outlives this. Allocates
  /// all that is needed later.
  DryPenalty(const DryParams& params, int32_t vocabulary, const tokenizer::Tokenizer* tokenizer,
             std::span<const TokenId> prompt);

  void remember(TokenId token);
  /// The tokens to penalise next, each once. Valid until the next call.
  std::span<const Match> matches();
  /// What is subtracted from the logit of a token with such a match.
  float penalty(int32_t length) const;
  /// The penalty by what matches() has found: 0 for a token that is none of them.
  float penalty_of(TokenId token) const {
    const int32_t length = lengths_[static_cast<size_t>(index(token))];
    return length == 0 ? 0 : penalty(length - 1);
  }

 private:
  /// Whether a breaker ends in the token's text, which comes after tail_; adds the text to tail_.
  bool breaks(TokenId token);
  bool holds_breaker(TokenId token) const;
  void find_last_break(std::span<const TokenId> prompt);

  DryParams params_;
  const tokenizer::Tokenizer* tokenizer_;
  size_t window_;
  size_t breaker_bytes_ = 0;      // of the longest breaker
  std::vector<TokenId> tokens_;   // the last window_ of them count; twice as many fit before they are moved
  std::string tail_;              // text before the next token, in which a breaker may have begun
  int32_t since_break_ = 0;       // tokens since the last that completed a breaker
  std::vector<int32_t> common_;   // scratch
  std::vector<int32_t> lengths_;  // [token]: 1 + Match::length, else 0
  std::vector<Match> matches_;
};

}  // namespace cairn::sampling
