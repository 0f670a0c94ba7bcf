/// What a grammar leaves little choice about, as tokens: proposed as drafts, a call's keys and punctuation take one
/// step instead of one for each token.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

namespace cairn::chat {

/// Bytes that are looked ahead.
inline constexpr size_t kExpectedBytesMax = 64;

/// The run that is expected next in one answer. White space may mostly be left out or written in several ways: assumed
/// is a space behind a colon or a comma, and, once the answer has lines, only behind a colon. Not thread-safe.
class ExpectedRun {
 public:
  explicit ExpectedRun(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The tokens that are expected behind what `matcher` has taken, the last of which was `text`, as `token`; none if
  /// much may follow, or if `token` is kNoToken, because the text was none or not one token. Valid until the next call.
  std::span<const TokenId> after(TokenId token, std::string_view text, grammar::Matcher& matcher);

 private:
  std::string run(grammar::Matcher& matcher) const;

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<TokenId> tokens_;
  size_t next_ = 0;
  char last_ = 0;       // of the answer's bytes
  bool lines_ = false;  // the answer has a line end
};

}  // namespace cairn::chat
