/// A request to an engine: one prompt, and how its answer is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/adapter_scales.h"
#include "engine/party.h"
#include "engine/slots.h"
#include "model/pooling.h"
#include "sampling/sampler.h"
#include "sampling/text_ban.h"

namespace cairn::engine {

/// Maximum number of stop strings. A client may name fewer (api/), because the chat template's own end-of-turn strings
/// join them.
inline constexpr size_t kStopStringsMax = 288;
inline constexpr size_t kStopBytesMax = 1'024;
inline constexpr size_t kStopTokensMax = 256;
inline constexpr size_t kBiasedTextBytesMax = 256;
/// Log-probabilities of prompts that a client may ask for at a time: their tokens, times one and the most likely ones
/// of each.
inline constexpr int64_t kPromptScoresMax = 1'048'576;

/// Logits that a prompt gives back in one request, 1 GiB of them.
inline constexpr int64_t kLogitsMax = int64_t{1} << 28;

/// Which rows of logits a request wants to have.
enum class LogitsKept : uint8_t { kNone, kLast, kAll };

class DecodingConstraint;
class TextEnd;
class UsageListener;

/// How a text is embedded instead of continued.
struct EmbeddingOptions {
  model::Pooling pooling = model::Pooling::kLast;  ///< not kNone
  int32_t second_begin = model::kNoSecond;         ///< as in EmbedText
};

/// One prompt and one answer: the choices of a client's request are several of these.
struct GenerateRequest {
  std::vector<TokenId> prompt;  ///< at least one token
  /// Who makes a longer prompt cuts it to its last tokens before submit(), which refuses what does not fit; -1: to as
  /// many as fit. Unset: it is not cut.
  std::optional<int32_t> prompt_tokens_max;
  sampling::SamplingParams sampling;
  /// Maximum number of tokens of the answer; the end of the context may come first. 0: the prompt is computed, and
  /// nothing is sampled. -1: to the end of the context, or of the pool.
  int32_t max_tokens = -1;
  std::vector<std::string> stop;     ///< text that ends the answer and is not part of it
  std::vector<TokenId> stop_tokens;  ///< end the answer as an end of turn does; at most kStopTokensMax
  bool shows_stop_tokens = false;    ///< whether their text is part of the answer
  size_t shown_stops = 0;            ///< so many of the first stop strings are part of the answer that they end
  bool ignore_eos = false;           ///< treat tokens that end generation like any others
  int32_t min_tokens = 0;            ///< before so many tokens, none that ends the answer is sampled
  /// If there are any, no other token is sampled, not even one that ends the answer.
  std::vector<TokenId> allowed_tokens;
  /// Texts that never come, and expressions that end the answer. Who plans the answer makes `text_ban` and `text_end`
  /// of them, which takes longer than submit() may.
  std::vector<std::string> banned_texts;
  std::vector<std::string> stop_regexes;
  std::shared_ptr<const sampling::TextBan> text_ban;  ///< null: every text may come
  std::shared_ptr<TextEnd> text_end;                  ///< for this request alone; null: only stop strings end the text
  /// Adds to the logits of the tokens of a text, of which together with sampling.logit_bias kLogitBiasMax may be.
  std::vector<std::pair<std::string, float>> text_bias;
  /// After this time from the first token on, the answer ends with its next line; 0: never.
  std::chrono::milliseconds line_time_max{0};
  int32_t line_indent_min = 0;  ///< the answer ends before a line, other than its first, with fewer blanks
  /// If set, Events::prompt has the score of each token of the prompt, with so many of the most likely tokens in its
  /// place, at most kTopLogprobsMax and kPromptScoresMax in all. The prefix cache is then written, but not read.
  std::optional<int32_t> prompt_logprobs{};
  /// If set, Finish::logits has the rows behind the prompt's tokens, of which there may be kLogitsMax logits. For
  /// requests whose max_tokens is 0. kAll computes the whole prompt, as prompt_logprobs does.
  LogitsKept logits = LogitsKept::kNone;
  bool reports_prefill = false;  ///< whether Events::prefill is told
  bool text_at_start = false;    ///< whether the answer begins a text (see Detokenizer)
  bool render_special = false;   ///< whether special tokens show as text

  std::string id;      ///< for prefix_report and logs; may be empty
  std::string client;  ///< who shares fairly with others: an address, since anyone can make up keys
  /// One of the client's tenants, with a share and a limit (tenant_requests_max) of its own; may be empty.
  std::string tenant;
  uint64_t salt = 0;         ///< only requests with the same salt share cached pages
  bool keep_on_disk = true;  ///< whether the disk tier, if there is one, may keep its pages
  int32_t slot = -1;         ///< the engine's slot that keeps the conversation (slots.h); -1: one that is chosen
  /// If set, nothing is generated: once it is done the answer ends, and Usage::cached_tokens says of how many tokens.
  SlotAction slot_action = SlotAction::kNone;
  Priority priority = Priority::kInteractive;
  std::chrono::milliseconds target_ttft{0};  ///< time to first token, from submit; 0: by priority and length
  std::chrono::milliseconds target_tbt{0};   ///< time between tokens; 0: none
  bool speculate = true;                     ///< whether to speculate, if the engine does
  /// LoRA adapters that it takes, and no others; nullopt: as Engine::adapter_scales() says when it is submitted.
  std::optional<std::vector<AdapterScale>> adapters{};
  /// If set, the only result is Finish::embedding, and the prompt may fill the whole context. Fields about the answer
  /// are ignored, and the prefix cache is not used.
  std::optional<EmbeddingOptions> embed;
  std::shared_ptr<DecodingConstraint> constraint;  ///< for this request alone; null: unconstrained
  std::shared_ptr<UsageListener> usage_listener;   ///< null: nobody is told
};

}  // namespace cairn::engine
