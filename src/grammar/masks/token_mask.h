/// Which tokens may come next under a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

namespace cairn::grammar {

class WalkedVocabulary;

/// The bytes that stand for a control token in grammars: no text of UTF-8 has them, and so no other token is allowed in
/// its place, nor is it where a grammar has text alone.
std::string control_token_bytes(TokenId token);
/// The bytes of all other tokens.
ByteSet text_bytes();

/// Makes masks for the vocabulary of one model. Thread-safe; a Matcher is not.
class TokenMasks {
 public:
  explicit TokenMasks(const tokenizer::Tokenizer& tokenizer);
  /// The bytes of each token, or none, and the tokens that end generation, ascending.
  TokenMasks(std::vector<std::string> pieces, std::vector<TokenId> ends);
  ~TokenMasks();

  /// 64-bit words of a mask: a bit for each token, the lowest bit of the first word for token 0.
  size_t words() const;

  /// Sets the bits of the tokens whose bytes may come next, and clears all others. Tokens that end generation are set
  /// exactly where the text may end; other control tokens where the grammar has their control_token_bytes(); those
  /// without bytes never. The mask depends on the grammar and the bytes taken alone. No bit is set if the matcher has
  /// failed, which it also does when the mask is over a limit on its work.
  void compute(Matcher& matcher, std::span<uint64_t> mask) const;

  /// Whether push() of the token, or of none, and then compute() are only look-ups of what was found out before.
  bool knows(const Matcher& matcher, TokenId token) const;

  /// Whether the token's bit would be set. The matcher fails where that takes more than its limits.
  bool allows(Matcher& matcher, TokenId token) const;
  /// Takes the token's bytes. False: they may not come next, or the matcher has failed, and nothing was taken.
  bool push(Matcher& matcher, TokenId token) const;

  bool ends_generation(TokenId token) const;
  size_t tokens() const { return pieces_.size(); }
  /// The token's bytes in grammars; none for tokens that end generation.
  std::string_view piece(TokenId token) const { return pieces_[static_cast<size_t>(index(token))]; }

 private:
  std::vector<std::string> pieces_;
  std::vector<TokenId> ends_;
  std::unique_ptr<WalkedVocabulary> vocabulary_;
};

}  // namespace cairn::grammar
