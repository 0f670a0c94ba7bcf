/// One request from admission to its end: its tokens, its pages, and what turns logits into events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/page_pool.h"
#include "engine/engine.h"
#include "engine/request_queue.h"
#include "engine/scheduler.h"
#include "engine/stop_matcher.h"
#include "sampling/sampler.h"
#include "tokenizer/detokenizer.h"

namespace cairn {

/// Thread: the engine's.
class Sequence {
 public:
  /// Everything that decoding needs is allocated here. `scratch` and `tokenizer` outlive this.
  Sequence(SequenceId id, Submission&& submission, const Tokenizer& tokenizer, int32_t vocabulary, size_t kv_groups,
           SamplerScratch& scratch);

  SequenceId id() const { return id_; }
  const EventChannel& channel() const { return *channel_; }
  int32_t pages_max() const { return pages_max_; }
  PageTable& pages() { return pages_; }

  /// Tokens that the model has seen, which is the position of the next row.
  int32_t computed() const { return computed_; }
  Demand demand() const { return {static_cast<int32_t>(tokens_.size()) - computed_, computed_ >= prompt_tokens_}; }
  /// The next `rows` tokens that it has not seen.
  std::span<const TokenId> next_tokens(int32_t rows) const;
  /// The model has seen `rows` more.
  void advance(int32_t rows) { computed_ += rows; }

  /// The logits of the last token are here: samples the next one. All tokens have been seen.
  Events sample(std::span<const float> logits);
  /// A finish that the sequence did not come to by itself. Text held back is dropped.
  Events end(FinishReason reason, Error error) const;
  void publish(Events&& events) { channel_->publish(std::move(events)); }

 private:
  Finish finish(FinishReason reason);

  SequenceId id_;
  std::shared_ptr<EventChannel> channel_;
  const Tokenizer& tokenizer_;
  std::vector<TokenId> tokens_;  // prompt and answer
  int32_t prompt_tokens_;
  int32_t tokens_max_;
  int32_t pages_max_;
  int32_t computed_ = 0;
  int32_t sampled_ = 0;
  bool ignore_eos_;
  std::vector<std::string> stops_;
  PageTable pages_;
  Sampler sampler_;
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
};

}  // namespace cairn
