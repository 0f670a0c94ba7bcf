/// The scores of a prompt's own tokens, of a request that asks for them (GenerateRequest::prompt_logprobs), and the
/// rows of logits that it wants to have (GenerateRequest::logits).
///
/// The row of a token scores the token after it. A row whose logits are wanted must be computed, so what the prefix
/// cache has helps only behind tokens that were scored before a preemption.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/event.h"
#include "engine/request.h"

namespace cairn::engine {

/// Thread: the engine's.
class SequenceScores {
 public:
  /// `top`: GenerateRequest::prompt_logprobs; `kept`: GenerateRequest::logits.
  SequenceScores(std::optional<int32_t> top, LogitsKept kept, std::span<const TokenId> prompt);

  /// Whether tokens are left without a score, so that all rows of the prompt's next step have logits.
  bool wanted() const { return scored_ < tokens_; }
  /// How many of the most likely tokens come with each score.
  int32_t top() const { return top_; }
  /// The token whose score the row of the token before it gives next.
  int32_t next() const { return scored_; }
  /// Tokens whose rows are not needed again.
  int32_t reusable() const { return wanted() ? scored_ - 1 : std::numeric_limits<int32_t>::max(); }
  /// The next token's score, and the row that gave it.
  void add(PromptScore&& score, std::span<const float> logits);
  /// Whether the row behind the prompt's last token is wanted.
  bool keeps_last() const { return kept_ != LogitsKept::kNone; }
  void add_last(std::span<const float> logits) { logits_.insert(logits_.end(), logits.begin(), logits.end()); }
  /// The rows that are kept, once.
  std::vector<float> take_logits() { return std::exchange(logits_, {}); }
  /// The scores of all tokens, once; none if none were asked for.
  std::vector<PromptScore> take() { return std::exchange(scores_, {}); }

 private:
  int32_t tokens_ = 0;  // to score; 0: none were asked for
  int32_t scored_ = 0;  // of them, with the first, which no row scores
  int32_t top_ = 0;
  bool asked_ = false;  // for the scores, and not for the rows alone
  LogitsKept kept_ = LogitsKept::kNone;
  std::vector<PromptScore> scores_;
  std::vector<float> logits_;
};

}  // namespace cairn::engine
