/// Which token of a sequence comes next: a sample of the logits, or what the request's constraint says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/decoding_constraint.h"
#include "engine/event.h"
#include "engine/output/sample_batch.h"
#include "engine/request.h"
#include "engine/sequence/rule_workers.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// Thread: the engine's.
class SequenceSampling {
 public:
  /// Takes the request's constraint and stop tokens. `scratch`, `tokenizer` and `rules` outlive this.
  SequenceSampling(GenerateRequest& request, std::span<const TokenId> prompt, const tokenizer::Tokenizer& tokenizer,
                   int32_t vocabulary, sampling::SamplerScratch& scratch, RuleWorkers& rules);
  ~SequenceSampling();

  // -- The next token, from logits on the host or from a runner that samples.
  sampling::Sampled choose(std::span<const float> logits);
  /// Whether the next token needs no logits.
  bool is_given() const { return is_forced() && !sampler_.reports(); }
  /// Adds a request for the sample from a row: of the next token, or of one `ahead` tokens later if the tokens between
  /// are drafts that are sampled. False if it cannot be told yet, or must be left to choose().
  bool add_request(int32_t row, int32_t ahead, SampleBatch& samples);
  /// Takes a sample that the runner made, in place of choose(); it is not SampleResult::kNeedsHost.
  sampling::Sampled take(const kernels::SampleResult& sampled);
  /// What the constraint expects to come next, which may be drafted; none where it is certain.
  std::span<const TokenId> expected() const { return is_forced() ? std::span<const TokenId>() : rule_.expected; }

  /// How likely a token of the prompt, which stands behind `tokens` others, is in the row before it.
  Result<PromptScore> score(TokenId token, int32_t top, std::span<const float> logits, int32_t tokens);

  // -- Once it is chosen.
  /// Counts a token. True if it ends the answer.
  bool count(TokenId token);
  /// Tokens so far, with the one that ended the answer.
  int32_t sampled() const { return sampled_; }
  bool is_stop_token(TokenId token) const;
  /// Tells the constraint of a token that did not end the answer, with the text that became certain with it.
  void proceed(TokenId token, std::string_view text);
  /// Whether the constraint is still finding out what may come next; nothing can be chosen before.
  bool awaits_rule() const { return work_ != nullptr; }
  /// Takes what it has found out; false: it is still at it.
  bool take_rule();
  /// What it says of the next token.
  const NextTokenRule& rule() const { return rule_; }
  /// Where no token could be chosen: whether the answer is over, because its form leaves only an end that is forbidden
  /// or ignored.
  bool must_end();
  /// Why no token could be chosen behind so many.
  Error failure(int32_t tokens);

 private:
  bool ends_answer(TokenId token) const;
  bool ends_text(TokenId token) const;
  /// What must not be sampled next, and is not masked.
  std::span<const TokenId> banned();
  /// The mask of the next token: those that both the request and the rule allow. Empty: all are.
  std::span<const uint64_t> allowed();
  /// What may come next under the mask, and is not banned.
  bool leaves_any();
  bool is_forced() const { return forced_next_ < rule_.forced.size(); }
  TokenId take_forced();
  /// The request's mask: its tokens, less those that contain one of its banned texts.
  static std::vector<uint64_t> request_mask(const GenerateRequest& request, int32_t vocabulary);
  void finish_rule();

  const tokenizer::Tokenizer& tokenizer_;
  sampling::Sampler sampler_;
  std::shared_ptr<DecodingConstraint> constraint_;  // null: unconstrained
  RuleWorkers& rules_;
  NextTokenRule rule_;
  std::shared_ptr<RuleWork> work_;  // has the rule
  bool was_slow_ = false;           // the constraint took longer than a step waits
  size_t forced_next_ = 0;          // next index of rule_.forced
  int32_t sampled_ = 0;
  int32_t min_tokens_;
  bool ignore_eos_;
  std::vector<TokenId> stop_tokens_;
  std::vector<TokenId> ends_;              // tokens that end the answer, if min_tokens_ forbids them for a while
  std::vector<TokenId> ignored_;           // tokens that end texts, if they are ignored, which no form allows then
  std::vector<TokenId> banned_;            // scratch
  std::vector<uint64_t> request_allowed_;  // a bit for each token that the request allows; empty: it allows all
  std::vector<uint64_t> allowed_;          // scratch
  std::shared_ptr<const sampling::TextBan> text_ban_;
  bool renders_special_;
  std::string tail_;  // the answer's end, which text_ban_ looks at
};

}  // namespace cairn::engine
