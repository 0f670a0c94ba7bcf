/// A sequence: one request from admission to its end, with its tokens, its pages, and what turns logits into events.
///
/// It has a part for each who works with it:
///
/// | part       | who calls it                   | what it knows                                            |
/// |------------|--------------------------------|----------------------------------------------------------|
/// | memory     | KvManager, and all who compute | pages, and how many tokens the model has computed        |
/// | caching    | KvManager                      | where its pages may be kept, and who may find them       |
/// | order      | Admission, PreemptionPolicy    | when it is due, and what comes before that               |
/// | statistics | Admission, KvManager, Emitter  | what its finish says of times and of the cache           |
/// | sampling   | Emitter, Drafting              | which token comes next                                   |
/// | drafts     | Drafting, lay_out, Emitter     | tokens that may come next                                |
/// | scores     | lay_out, KvManager, Emitter    | how likely the prompt's own tokens are                   |
/// | embedding  | lay_out, Emitter               | the vector, in place of an answer                        |
///
/// The text of the answer is a part that only the sequence itself calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/event.h"
#include "engine/output/event_channel.h"
#include "engine/party.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/tenants.h"
#include "engine/sequence/sequence_drafts.h"
#include "engine/sequence/sequence_embedding.h"
#include "engine/sequence/sequence_memory.h"
#include "engine/sequence/sequence_order.h"
#include "engine/sequence/sequence_sampling.h"
#include "engine/sequence/sequence_scores.h"
#include "engine/sequence/sequence_statistics.h"
#include "engine/sequence/sequence_text.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// Thread: the engine's.
class Sequence {
 public:
  /// Allocates everything that decoding needs. `scratch`, `tokenizer` and `rules` outlive
  /// this.
  Sequence(SequenceId id, Submission&& submission, const tokenizer::Tokenizer& tokenizer, int32_t vocabulary,
           size_t kv_groups, int32_t drafts_max, sampling::SamplerScratch& scratch, RuleWorkers& rules);

  SequenceId id() const { return id_; }
  const std::string& request_id() const { return request_id_; }
  /// Whose it is.
  const Party& party() const { return party_; }
  const EventChannel& channel() const { return *channel_; }
  /// Scale of each LoRA adapter of the model, for this sequence.
  std::span<const float> adapter_scales() const { return adapter_scales_; }

  // -- Its tokens.
  /// Prompt and answer.
  std::span<const TokenId> tokens() const { return tokens_; }
  int32_t prompt_tokens() const { return prompt_tokens_; }
  /// Whether its answer has begun.
  bool has_answer() const { return tokens_.size() > static_cast<size_t>(prompt_tokens_); }
  /// Tokens of the prompt, and of the answer before a preemption, that the model still has to compute.
  int32_t rows_left() const { return static_cast<int32_t>(tokens_.size()) - memory_.computed; }
  /// Tokens that it may take from the prefix cache: behind them it needs what rows give.
  int32_t reusable() const { return std::min(static_cast<int32_t>(tokens_.size()) - 1, scores_.reusable()); }
  /// Whether nothing is sampled once the prompt is computed.
  bool ends_with_prompt() const { return tokens_max_ == prompt_tokens_; }
  /// Whether the only row left is a token that was sampled.
  bool decoding() const { return has_answer() && rows_left() == 1; }
  /// Tokens that could still follow the next one.
  int32_t drafts_room() const { return tokens_max_ - static_cast<int32_t>(tokens_.size()) - 1; }

  // -- Its parts.
  SequenceMemory& memory() { return memory_; }
  const SequenceMemory& memory() const { return memory_; }
  SequenceCaching& caching() { return caching_; }
  const SequenceCaching& caching() const { return caching_; }
  SequenceOrder& order() { return order_; }
  const SequenceOrder& order() const { return order_; }
  SequenceStatistics& statistics() { return statistics_; }
  const SequenceStatistics& statistics() const { return statistics_; }
  SequenceSampling& sampling() { return sampling_; }
  const SequenceSampling& sampling() const { return sampling_; }
  SequenceDrafts& drafts() { return drafts_; }
  const SequenceDrafts& drafts() const { return drafts_; }
  SequenceScores& scores() { return scores_; }
  const SequenceScores& scores() const { return scores_; }
  /// Null if the text is continued, not embedded.
  SequenceEmbedding* embedding() { return embedding_ ? &*embedding_ : nullptr; }
  bool embeds() const { return embedding_.has_value(); }

  // -- Its events.
  /// What the client is told of the prompt, if it asked and the answer has not begun; else nothing.
  std::optional<PrefillProgress> prefill(int64_t now_ns) const;
  /// Adds the token's events. True when the answer has ended.
  bool add_token(sampling::Sampled&& sampled, Events& events);
  /// The end of an answer without tokens, in place of add_token().
  void end_with_prompt(Events& events);
  /// Looks whether the rule of the next token that is awaited is there, and adds the end that it says. True when the
  /// answer has ended.
  bool settle(Events& events);
  /// The events of an end that did not come from the answer itself. Text held back is dropped.
  Events end(FinishReason reason, Error error) const;
  void publish(Events&& events, UnnotifiedChannels& unnotified);

 private:
  void fail(Error error, Events& events) const;
  void add_event(sampling::Sampled&& sampled, Events& events);
  void add_end(Events& events);
  Finish finish(FinishReason reason) const;
  Finish finish_with_rest(FinishReason reason);

  SequenceId id_;
  std::string request_id_;
  Party party_;
  std::shared_ptr<EventChannel> channel_;
  TenantTicket ticket_;
  std::vector<float> adapter_scales_;
  std::vector<TokenId> tokens_;  // prompt and answer
  int32_t prompt_tokens_;
  int32_t tokens_max_;
  bool fills_context_;  // whether tokens_max_ is the end of the context, or of the pool
  bool reports_prefill_;
  std::chrono::nanoseconds line_time_max_;
  SequenceMemory memory_;
  SequenceCaching caching_;
  SequenceOrder order_;
  SequenceStatistics statistics_;
  SequenceDrafts drafts_;
  SequenceScores scores_;
  SequenceSampling sampling_;
  SequenceText text_;
  std::optional<SequenceEmbedding> embedding_;
};

/// Running sequences are in order of admission; a finished one is null until its iteration ends.
using Sequences = std::vector<std::unique_ptr<Sequence>>;

}  // namespace cairn::engine
