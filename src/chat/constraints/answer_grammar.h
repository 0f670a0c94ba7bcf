/// Holds an answer to a grammar: which tokens may come next, and when the answer is over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/constraints/expected_run.h"
#include "chat/output/reasoning.h"
#include "engine/decoding_constraint.h"
#include "grammar/masks/token_mask.h"

namespace cairn::chat {

/// White space that models put between their thinking and the answer, which is no part of either.
inline constexpr size_t kAnswerSpaceBytesMax = 4;

/// What masks of a model's tokens are made from. Made once for a model.
struct AnswerVocabulary {
  /// `tokenizer` outlives this.
  explicit AnswerVocabulary(const tokenizer::Tokenizer& made_from);
  const tokenizer::Tokenizer& tokenizer;
  grammar::TokenMasks masks;
  /// Texts of control tokens, those that end generation too.
  std::map<std::string, TokenId, std::less<>> controls;
  /// A format's text as grammars have it: control_token_bytes() in place of control tokens. None that ends generation
  /// is part of a grammar: of a text that opens something, what is behind the last of them; else what is before the
  /// first.
  std::string spell(std::string_view text, bool opens) const;
  std::vector<TokenId> spaces;  ///< tokens of white space alone, of at most kAnswerSpaceBytesMax bytes
};

/// What the answers of a request are held to.
struct AnswerGrammarRules {
  std::shared_ptr<const grammar::Grammar> grammar;
  std::shared_ptr<const AnswerVocabulary> vocabulary;
  std::string begun{};  ///< the answer's beginning, which the prompt ends with
  /// The token with which the model may begin to think before it answers; kNoToken: it may not.
  TokenId thinking_open = kNoToken;
  /// The token with which the model may begin a call in place of the answer; kNoToken: it may not.
  TokenId call_open = kNoToken;
};

/// The token that the text is, or kNoToken.
TokenId only_token(const tokenizer::Tokenizer& tokenizer, std::string_view text);
/// The token with which a model may begin to think, where its prompt, which ends with `prompt`, has neither begun nor
/// ended the thinking; else kNoToken.
TokenId thinking_opener(const tokenizer::Tokenizer& tokenizer, ReasoningFormat format, std::string_view prompt);

/// The grammar's state in one answer. Not thread-safe. The masks depend on the answer's tokens alone.
class AnswerGrammar {
 public:
  explicit AnswerGrammar(AnswerGrammarRules rules);

  /// From now on the answer follows the grammar. `space`: white space may come first.
  void start(bool space, engine::NextTokenRule& next);
  bool started() const { return started_; }
  /// Whether the answer is held to the grammar now.
  bool holding() const { return started_ && !complete_; }
  /// The model has begun to think: nothing is masked until the next start().
  void pause(engine::NextTokenRule& next);
  bool opens_thinking(TokenId token) const { return opens(token, rules_.thinking_open); }
  bool opens_call(TokenId token) const { return opens(token, rules_.call_open); }
  /// A call has taken the answer's place: nothing is masked any more.
  void give_way(engine::NextTokenRule& next);
  /// Takes a token of the answer. `next.error` is set if it does not fit, or a limit on the work is reached.
  void token(TokenId token, engine::NextTokenRule& next);
  /// Whether start(), or token() of the token, are only look-ups of what was found out before.
  bool starts_quickly() const { return rules_.vocabulary->masks.knows(matcher_, kNoToken); }
  bool takes_quickly(TokenId token) const;
  /// The same for text that came in one token with the end of the thinking.
  void text(std::string_view text, engine::NextTokenRule& next);

 private:
  bool opens(TokenId token, TokenId opener) const {
    return token != kNoToken && token == opener && matcher_.position() == 0 && !complete_;
  }
  bool takes_space(std::string_view text);
  /// `token` with its `text` was taken last.
  void allow_next(TokenId token, std::string_view text, engine::NextTokenRule& next);

  AnswerGrammarRules rules_;
  grammar::Matcher matcher_;
  ExpectedRun expected_;
  std::vector<uint64_t> mask_;
  size_t space_left_ = 0;
  bool started_ = false;
  bool complete_ = false;  // and the answer is held to nothing any more
};

/// Holds a text without thinking and calls to a grammar from its first token.
class CompletionConstraint final : public engine::DecodingConstraint {
 public:
  explicit CompletionConstraint(AnswerGrammarRules rules) : grammar_(std::move(rules)) {}
  void begin(engine::NextTokenRule& next) override {
    next.unfinished = !grammar_.starts_quickly();
    if (!next.unfinished) finish(next);
  }
  void token(TokenId token, std::string_view, engine::NextTokenRule& next) override {
    last_ = token;
    next.unfinished = !grammar_.takes_quickly(token);
    if (!next.unfinished) finish(next);
  }
  void finish(engine::NextTokenRule& next) override {
    next.unfinished = false;
    if (grammar_.started())
      grammar_.token(last_, next);
    else
      grammar_.start(/*space=*/false, next);
  }

 private:
  AnswerGrammar grammar_;
  TokenId last_ = kNoToken;
};

}  // namespace cairn::chat
