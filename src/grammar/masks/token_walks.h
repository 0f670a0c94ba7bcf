/// Texts that a grammar forces, and texts drawn from its masks alone.
#pragma once

#include <cstdint>
#include <string>

#include "grammar/masks/token_mask.h"
#include "grammar/matcher.h"

namespace cairn::grammar {

/// The bytes that must come next, at most `bytes_max` of them: each is the only one that can follow, and the text may
/// not end before it. The matcher stays where it is.
std::string forced_text(Matcher& matcher, size_t bytes_max);

struct DrawnText {
  std::string text;
  bool ended = false;  ///< an end token was drawn: the text is in the grammar's language
  int32_t tokens = 0;
};

/// Walks from where the matcher stands by tokens that masks allow, without a model, up to an end token or `tokens_max`
/// tokens. Tokens that hold a quote, a closing bracket or a comma, and end tokens, are 64 times as likely as others, so
/// that texts of JSON end. The same seed gives the same text.
DrawnText draw_text(const TokenMasks& masks, Matcher& matcher, uint64_t seed, int32_t tokens_max);

}  // namespace cairn::grammar
