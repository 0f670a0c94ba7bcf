/// One loaded model at work: many requests, one batch, one thread: admit -> plan -> step -> sample -> emit.
///
/// Decode rows go first in every step; prompts fill what is left of the step's time (scheduler.h). What was computed is
/// kept and found again (cache/prefix_cache.h). When pages run out the cheapest sequence is put back and goes on later.
/// A request's tokens depend on nothing but itself: logits do not depend on the batch (see Runner), and the i-th sample
/// only on the seed and i.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/engine_stats.h"  // IWYU pragma: export
#include "engine/speculation/drafter.h"
#include "model/embedder.h"
#include "model/runner.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

/// More than a client may name (api/): a chat template's own end of turn joins them.
inline constexpr size_t kStopStringsMax = 32;
inline constexpr size_t kStopBytesMax = 1'024;

struct SpeculationOptions {
  int32_t tokens_max = 0;  ///< proposed per sequence and step; 0: no speculation
  int32_t ngram_max = 4;   ///< longest run of tokens that prompt lookup searches for
};

struct EngineOptions {
  std::vector<int32_t> kv_pages;  ///< of every KV group
  int32_t queue_max = 256;        ///< requests waiting; more are refused with kQueueFull
  int32_t sequences_max =
      64;  ///< sequences in the batch; at most the runner's batch_tokens_max and logits_max are used
  int32_t tenant_requests_max = 0;     ///< waiting and running, of one tenant (see Tenants); 0: no limit
  std::chrono::milliseconds step{30};  ///< what prompts may add to a step while streams decode
  int32_t prefill_chunk_max = 264;     ///< prompt rows of one step, however fast they are
  bool prefix_cache = true;
  int64_t kv_host_bytes = 0;  ///< host memory for pages that the pool gives up; 0: none
  SpeculationOptions speculation{};
  /// Asked on the engine's thread when a step has been computed: an error (weights that are no longer what they were)
  /// fails the requests of the step. Empty: there is nothing to ask.
  std::function<Result<void>()> check_weights{};
};

/// Whom a request is of: hashes of GenerateRequest's client and tenant.
struct Party {
  uint64_t client = 0;
  uint64_t tenant = 0;
  bool operator==(const Party&) const = default;
};
inline constexpr uint64_t kNoTenant = 0;  ///< of an empty name
Party party_of(std::string_view client, std::string_view tenant);

enum class Priority {
  kInteractive,  ///< somebody is waiting
  kBatch,        ///< gets a share, and what interactive requests leave
};
inline constexpr int kPriorities = 2;

class DecodingConstraint;

/// What is wanted of a text that is not to be continued.
struct EmbeddingOptions {
  Pooling pooling = Pooling::kLast;  ///< not kNone
  int32_t second_begin = kNoSecond;  ///< EmbedText's
};

struct GenerateRequest {
  std::vector<TokenId> prompt;  ///< at least one token
  SamplingParams sampling;
  /// At least 1; the end of the context comes first if that is nearer. -1: to the end of the context, or of the pool.
  int32_t max_tokens = -1;
  std::vector<std::string> stop;  ///< text that ends the answer and is not part of it
  bool ignore_eos = false;        ///< tokens that end generation are tokens like others
  bool text_at_start = false;     ///< the answer begins a text (see Detokenizer)
  bool render_special = false;    ///< special tokens show as text

  std::string id;      ///< for prefix_report and logs; may be empty
  std::string client;  ///< who shares fairly with others; an address, as long as anybody may make up keys
  std::string tenant;  ///< among its client's, with a share and a limit (tenant_requests_max) of its own; may be empty
  uint64_t salt = 0;   ///< only requests of the same salt share what is cached
  Priority priority = Priority::kInteractive;
  std::chrono::milliseconds target_ttft{0};  ///< to the first token, from submit; 0: by priority and length
  std::chrono::milliseconds target_tbt{0};   ///< between tokens; 0: none
  bool speculate = true;                     ///< if the engine does
  /// No answer but Finish::embedding; the prompt may fill the whole context. What belongs to the answer counts for
  /// nothing, and the prefix cache has no part in it.
  std::optional<EmbeddingOptions> embed;
  std::shared_ptr<DecodingConstraint> constraint;  ///< of this request alone; null: the model decides everything
};

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
  std::vector<TokenLogprob> top;
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;  ///< sampled tokens, with the one that ended generation
  int32_t cached_tokens = 0;      ///< of the prompt, found in the prefix cache
};

/// Where the time of a request went.
struct Timings {
  std::chrono::nanoseconds queue{0};                    ///< submit to admission
  std::chrono::nanoseconds prefill{0};                  ///< admission to the first token
  std::chrono::nanoseconds decode{0};                   ///< first to last token
  std::chrono::nanoseconds max_inter_token_latency{0};  ///< longest time between two tokens
  int32_t preemptions = 0;
  int32_t drafted = 0;   ///< tokens proposed by speculation
  int32_t accepted = 0;  ///< and right
};

struct Finish {
  FinishReason reason = FinishReason::kStop;
  std::string text;              ///< what was held back until the end; nothing for kCancelled and kError
  std::string stop;              ///< the stop string that matched, if one did
  std::vector<float> embedding;  ///< not normalised; for Pooling::kRank the judgement alone, as a logit
  Usage usage;
  Timings timings;
  Error error;  ///< for kError
};

/// What happened since the last drain. The finish comes once, with or after the last token.
struct Events {
  std::vector<TokenEvent> tokens;
  bool finished = false;
  Finish finish;  ///< if finished
};

/// The client's end of a request. Destroying it cancels. May outlive the engine. Thread-safe.
class GenerateStream {
 public:
  virtual ~GenerateStream() = default;
  /// Takes all events so far; never blocks.
  virtual Events drain() = 0;
  /// As drain, but waits up to `timeout` for the first event. After the finish was taken it does not wait.
  virtual Events wait(std::chrono::milliseconds timeout) = 0;
  /// Called on the engine's thread, at most once a step, after events were added, or on another's when its request
  /// makes room for itself in the queue; must only wake somebody (it may drain, but not destroy the stream; if it
  /// throws for want of memory it is called again). Set it once, before the first drain; called at once, on this
  /// thread, if events are there already. Never called after the stream is destroyed.
  virtual void on_events(std::function<void()> notify) = 0;
  /// The request's memory is free within one step. Finish follows with kCancelled, unless it came to its end before.
  virtual void cancel() = 0;
};

/// Owns its thread. Destroying it stops it.
class Engine {
 public:
  /// `runner`, its `backends` by KvGroup::device and `tokenizer` outlive the engine. `drafter` null: the model's own
  /// MTP module, or else prompt lookup, if options ask for speculation. Errors: kInvalidArgument (an option out
  /// of its range), kOutOfMemory (KV pages).
  static Result<std::unique_ptr<Engine>> create(Runner& runner, std::span<Backend* const> backends,
                                                const Tokenizer& tokenizer, const EngineOptions& options,
                                                std::unique_ptr<Drafter> drafter = nullptr);
  /// The same where there is one.
  static Result<std::unique_ptr<Engine>> create(Runner& runner, Backend& backend, const Tokenizer& tokenizer,
                                                const EngineOptions& options,
                                                std::unique_ptr<Drafter> drafter = nullptr) {
    Backend* const backends[] = {&backend};
    return create(runner, backends, tokenizer, options, std::move(drafter));
  }
  virtual ~Engine() = default;

  /// Thread-safe; does not wait. Errors: kInvalidArgument (empty prompt, token out of range, sampling, max_tokens,
  /// stop, targets; `at` names the field), kContextLengthExceeded (prompt tokens and context tokens in the message; one
  /// token of the answer must fit), kTooLarge (needs more KV pages than there are), kQueueFull (also a tenant's limit),
  /// kUnavailable (stopping). kQueueFull may come as a finish, too: see RequestQueue::push and
  /// EngineCore::preempt_stalled.
  virtual Result<std::unique_ptr<GenerateStream>> submit(GenerateRequest request) = 0;
  /// Refuses new requests, finishes all with kCancelled and joins the thread. Thread-safe, may be called again.
  virtual void stop() = 0;
  /// Thread-safe, does not wait for the engine's thread.
  virtual EngineStats stats() const = 0;
  /// Thread-safe. kNotFound: no such request of the same tenant, or without one of the same client, among the last
  /// ones.
  virtual Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const = 0;
  virtual int32_t context_tokens() const = 0;
};

}  // namespace cairn
