/// Holds calls to a grammar from the text that opens them to their end: names from the list, arguments as they must be.
/// Also other texts that begin with a start and then follow a grammar. Between them nothing is masked; only tokens
/// that would open a call and go on as no call can are banned.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chat/constraints/answer_grammar.h"
#include "chat/output_parts.h"
#include "engine/decoding_constraint.h"
#include "sampling/text_ban.h"

namespace cairn::chat {

struct HeldCallsRules {
  struct BlockStart {
    std::string text;
    std::string spelled;  ///< AnswerVocabulary::spell of it
    bool certain = true;  ///< else a call has begun when the parser says so, and is held from there
  };
  std::shared_ptr<const grammar::Grammar> grammar{};  ///< of a block of calls, with the text that opens it
  std::shared_ptr<const AnswerVocabulary> vocabulary{};
  std::shared_ptr<const sampling::TextBan> completing{};  ///< of the starts, in their order; null: there are none
  std::vector<BlockStart> starts{};
  std::string before{};  ///< the text before the answer, or its end: a start may begin there
  std::string bare{};    ///< a byte that may begin a call where only white space has come; empty: none
  std::string begun{};   ///< spelled: the beginning of a block, which the prompt ends with
  bool begun_certain = true;
  bool ends_answer = false;  ///< the answer is over where a block is
};

/// The state in one answer. Not thread-safe. The masks depend on the answer's tokens alone.
class HeldCalls {
 public:
  HeldCalls(HeldCallsRules rules, const tokenizer::Tokenizer& tokenizer);

  void begin(engine::NextTokenRule& next);
  /// Called when the parser has read the token's text, which gave `parts`. `thought`: before it the model was thinking.
  /// Appends to `next.banned`.
  void token(TokenId token, bool thought, std::span<const Part> parts, engine::NextTokenRule& next);
  /// Whether token() of the token is only a look-up of what was found out before.
  bool takes_quickly(TokenId token) const;
  /// Whether the next token is masked.
  bool holding() const { return state_ == State::kHeld; }

 private:
  enum class State {
    kFree,
    kTentative,  ///< the text may be a call
    kHeld,
  };
  void read_free(TokenId token, bool thought);
  void read_call(TokenId token, engine::NextTokenRule& next);
  /// Begins a block; false: what has come of it behind its start is no call.
  bool open(std::string_view spelled, std::string_view rest, State state);
  /// `token`, or kNoToken, was taken last.
  void allow_next(TokenId token, engine::NextTokenRule& next);
  void ban_misfits(engine::NextTokenRule& next);
  const std::vector<TokenId>& misfits(size_t start, size_t written);

  HeldCallsRules rules_;
  const tokenizer::Tokenizer& tokenizer_;
  State state_ = State::kFree;
  std::optional<grammar::Matcher> matcher_;
  ExpectedRun expected_;
  std::vector<uint64_t> mask_;
  std::string tail_;        // of the text outside of calls
  bool completed_ = false;  // a block
  bool at_start_ = true;    // only white space has come since the beginning, the thinking or a block
  std::map<std::pair<size_t, size_t>, std::vector<TokenId>> misfits_;
};

}  // namespace cairn::chat
