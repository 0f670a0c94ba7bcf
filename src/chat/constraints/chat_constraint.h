/// Keeps a chat's answer to what its request asked for: no calls, one call, a thinking budget, an end to repetition.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "chat/constraints/repetition_loop.h"
#include "chat/output/output_parser.h"
#include "engine/decoding_constraint.h"
#include "sampling/text_ban.h"

namespace cairn {

/// Tokens of one cycle at the answer's end that close the thinking, and that end an answer that has no other bound.
inline constexpr int32_t kThinkingCycleTokens = 256;
inline constexpr int32_t kAnswerCycleTokens = 1'024;

struct ChatConstraintRules {
  int32_t reasoning_tokens_max = -1;     ///< -1: no bound
  bool one_call = false;                 ///< the answer ends with its first call
  bool stops_on_loop = false;            ///< the answer itself may end when it repeats itself without end
  std::shared_ptr<const TextBan> ban{};  ///< null: nothing is banned
};

class ChatConstraint final : public DecodingConstraint {
 public:
  /// `parser` as the answer's own at its beginning, `last` the prompt's last token. `tokenizer` outlives this.
  ChatConstraint(ChatConstraintRules rules, OutputParser parser, const Tokenizer& tokenizer, TokenId last);
  void begin(NextTokenRule& next) override;
  void token(TokenId token, std::string_view text, NextTokenRule& next) override;

 private:
  void close_thinking(NextTokenRule& next);
  void ban(TokenId token, NextTokenRule& next);

  ChatConstraintRules rules_;
  OutputParser parser_;
  const Tokenizer& tokenizer_;
  TokenId last_;
  std::vector<Part> parts_;  // scratch
  RepetitionDetector repetition_;
  std::string tail_;
  int32_t reasoning_tokens_ = 0;
  int closed_ = 0;
};

}  // namespace cairn
