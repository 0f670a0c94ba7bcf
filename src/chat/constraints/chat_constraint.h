/// Constrains a chat's answer to what its request asked for: no calls, a single call, a thinking budget, an end to
/// repetition.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "chat/constraints/answer_grammar.h"
#include "chat/constraints/held_calls.h"
#include "chat/constraints/repetition_loop.h"
#include "chat/output/output_parser.h"
#include "engine/decoding_constraint.h"
#include "sampling/text_ban.h"

namespace cairn::chat {

/// Number of tokens of a repeated cycle after which the thinking is closed, or an answer without any other bound ends.
inline constexpr int32_t kThinkingCycleTokens = 256;
inline constexpr int32_t kAnswerCycleTokens = 1'024;

struct ChatConstraintRules {
  int32_t reasoning_tokens_max = -1;               ///< -1: unlimited
  bool one_call = false;                           ///< the answer ends after its first call
  bool stops_on_loop = false;                      ///< the answer itself may end when it repeats itself endlessly
  std::shared_ptr<const sampling::TextBan> ban{};  ///< null: nothing is banned
  std::optional<AnswerGrammarRules> grammar{};     ///< what the answer behind the thinking is held to
  std::optional<HeldCallsRules> calls{};           ///< what calls are held to
};

class ChatConstraint final : public engine::DecodingConstraint {
 public:
  /// `parser` is a copy of the answer's parser at its beginning, `last` the prompt's last token. `tokenizer` outlives
  /// this.
  ChatConstraint(ChatConstraintRules rules, OutputParser parser, const tokenizer::Tokenizer& tokenizer, TokenId last);
  void begin(engine::NextTokenRule& next) override;
  void token(TokenId token, std::string_view text, engine::NextTokenRule& next) override;
  void finish(engine::NextTokenRule& next) override;

 private:
  void close_thinking(engine::NextTokenRule& next);
  void ban(TokenId token, engine::NextTokenRule& next);
  bool is_quick() const;
  void follow_grammar(TokenId token, engine::NextTokenRule& next);

  ChatConstraintRules rules_;
  OutputParser parser_;
  const tokenizer::Tokenizer& tokenizer_;
  TokenId last_;
  bool begun_ = false;
  bool thought_ = false;  // before the last token the model was thinking
  std::optional<AnswerGrammar> grammar_;
  std::optional<HeldCalls> calls_;
  std::vector<Part> parts_;  // scratch
  RepetitionDetector repetition_;
  std::string tail_;
  int32_t reasoning_tokens_ = 0;
  int closed_ = 0;
};

}  // namespace cairn::chat
