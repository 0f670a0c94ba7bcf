/// Events of an answer: tokens with their text, and the finish.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "sampling/sampler.h"

namespace cairn::engine {

enum class FinishReason {
  kStop,        ///< a token that ends generation, or a stop string
  kLength,      ///< max_tokens or the end of the context
  kRepetition,  ///< the answer repeated itself without end (DecodingConstraint)
  kCancelled,
  kError,
};

/// A token of the answer and the text that became certain with it. A stop string's text never appears. A token that
/// ended generation has no event.
struct TokenEvent {
  TokenId token = kNoToken;
  std::string text;  ///< valid UTF-8; may be empty, may hold text of tokens before
  float logprob = 0;
  std::vector<sampling::TokenLogprob> top;
};

/// A token of the prompt, and how likely the model found it behind those before it: in the row as the model gave it,
/// without biases, penalties or a form.
struct PromptScore {
  TokenId token = kNoToken;
  float logprob = 0;
  int32_t rank = 0;  ///< 1: no token was more likely; 0: it is the first token, which nothing scores
  std::vector<sampling::TokenLogprob> top{};
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;   ///< sampled tokens, including the one that ended generation
  int32_t cached_tokens = 0;       ///< tokens of the prompt found in the prefix cache
  int32_t disk_tokens = 0;         ///< of them, whose pages came from the disk tier
  int32_t cache_write_tokens = 0;  ///< tokens of the prompt in whole pages that it has added to the prefix cache
};

/// How a request's time was spent.
struct Timings {
  std::chrono::nanoseconds queue{0};                    ///< from submit to admission; 0: it was never admitted
  std::chrono::nanoseconds prefill{0};                  ///< from admission to the first token
  std::chrono::nanoseconds decode{0};                   ///< from the first to the last token
  std::chrono::nanoseconds max_inter_token_latency{0};  ///< longest time between two tokens
  int32_t preemptions = 0;
  int32_t drafted = 0;   ///< tokens proposed by speculation
  int32_t accepted = 0;  ///< proposed tokens that were right
};

struct Finish {
  FinishReason reason = FinishReason::kStop;
  std::string text;              ///< text held back until the end; empty for kCancelled and kError
  std::string stop;              ///< the stop string that matched, if one did
  bool context_full = false;     ///< with kLength: it is the end of the context, not max_tokens
  std::vector<float> embedding;  ///< not normalised; for Pooling::kRank one element, the relevance score as a logit
  std::vector<float> logits;     ///< rows of GenerateRequest::logits, one behind the other
  int32_t slot = -1;             ///< that keeps the conversation; -1: none does
  Usage usage;
  Timings timings;
  Error error;  ///< set for kError
};

/// Hears what a request has used when it ends, also if its client has gone.
class UsageListener {
 public:
  virtual ~UsageListener() = default;
  /// Called once, on the engine's thread, with the finish of a request that was admitted. Must not block.
  virtual void request_ended(const Usage& usage) noexcept = 0;
};

/// How far a prompt's computation is, of a request that asked for it.
struct PrefillProgress {
  int32_t total = 0;                 ///< tokens of the prompt
  int32_t cached = 0;                ///< of them, found in the prefix cache
  int32_t computed = 0;              ///< of them, cached or computed
  std::chrono::nanoseconds time{0};  ///< since admission
};

/// Events since the last drain. The finish comes once, with or after the last token.
struct Events {
  std::optional<PrefillProgress> prefill;  ///< the latest; comes before the tokens
  std::vector<PromptScore> prompt;         ///< of all its tokens, once, before the tokens, if they were asked for
  std::vector<TokenEvent> tokens;
  bool finished = false;
  Finish finish;  ///< set if finished
};

}  // namespace cairn::engine
