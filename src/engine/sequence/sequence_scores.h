/// The scores of a prompt's own tokens, of a request that asks for them (GenerateRequest::prompt_logprobs).
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

namespace cairn::engine {

/// Thread: the engine's.
class SequenceScores {
 public:
  /// `top`: GenerateRequest::prompt_logprobs.
  SequenceScores(std::optional<int32_t> top, std::span<const TokenId> prompt);

  /// Whether tokens are left without a score, so that all rows of the prompt's next step have logits.
  bool wanted() const { return scored_ < tokens_; }
  /// How many of the most likely tokens come with each score.
  int32_t top() const { return top_; }
  /// The token whose score the row of the token before it gives next.
  int32_t next() const { return scored_; }
  /// Tokens whose rows are not needed again.
  int32_t reusable() const { return wanted() ? scored_ - 1 : std::numeric_limits<int32_t>::max(); }
  /// The next token's score.
  void add(PromptScore&& score);
  /// The scores of all tokens, once; none if none were asked for.
  std::vector<PromptScore> take() { return std::exchange(scores_, {}); }

 private:
  int32_t tokens_ = 0;  // to score; 0: none were asked for
  int32_t scored_ = 0;  // of them, with the first, which no row scores
  int32_t top_ = 0;
  std::vector<PromptScore> scores_;
};

}  // namespace cairn::engine
