/// Samples a token from logits: the chain of filters of one request.
///
/// Order (docs/sampling.md): logit bias, repetition / frequency / presence penalties, banned tokens, top-k, typical-p,
/// top-p, min-p, temperature, sample. Each filter sees the probabilities, at temperature 1, of what the filters before
/// it left. temperature 0 takes the largest logit after bias and penalties (ties: lower id).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "kernels/sampler_operations.h"
#include "sampling/candidates.h"

namespace cairn {

inline constexpr int32_t kTopLogprobsMax = 20;
inline constexpr size_t kLogitBiasMax = 1'024;
inline constexpr int32_t kPenaltyLastMax = 65'536;

struct SamplingParams {
  float temperature = 1.0f;         ///< 0 .. 2; 0 is greedy
  int32_t top_k = 0;                ///< 0: all
  float top_p = 1.0f;               ///< (0, 1]
  float min_p = 0.0f;               ///< [0, 1)
  float typical_p = 1.0f;           ///< (0, 1]
  float repetition_penalty = 1.0f;  ///< (0, 10]; > 1 discourages tokens among the last penalty_last
  float frequency_penalty = 0.0f;   ///< -2 .. 2, per occurrence among the last penalty_last
  float presence_penalty = 0.0f;    ///< -2 .. 2, once
  int32_t penalty_last = 64;  ///< tokens of prompt and answer to which penalties apply; -1: all (up to kPenaltyLastMax)
  std::vector<std::pair<TokenId, float>> logit_bias{};  ///< -100 .. 100 each; biases of the same token are added
  uint64_t seed = 0;
  bool logprobs = false;     ///< whether to report the chosen token's log-probability
  int32_t top_logprobs = 0;  ///< and the log-probabilities of the n most likely tokens, 0 .. kTopLogprobsMax

  /// kInvalidArgument naming the field and its range (logit_bias ids are checked against the vocabulary).
  Result<void> validate(int32_t vocabulary) const;
};

struct TokenLogprob {
  TokenId token = kNoToken;
  float logprob = 0;  ///< natural log of the model's own probability: softmax of the raw logits
};

struct Sampled {
  TokenId token = kNoToken;       ///< kNoToken: no logit is above -infinity, so the model has failed
  float logprob = 0;              ///< if requested
  std::vector<TokenLogprob> top;  ///< most likely first, if requested; fewer if fewer have a probability above 0
};

/// State of one request. The sample for the i-th token of a request depends on (seed, i) and its logits alone, so
/// neither the batch nor a restart after preemption changes it. Not thread-safe.
class Sampler {
 public:
  /// `params` are valid. `prompt`: tokens to which penalties apply before the first token. `scratch`: memory shared by
  /// samplers on one thread, which outlives this; null: the sampler has its own. Afterwards only reported
  /// log-probabilities allocate.
  Sampler(const SamplingParams& params, int32_t vocabulary, std::span<const TokenId> prompt,
          SamplerScratch* scratch = nullptr);

  /// logits [vocabulary] are not changed. NaN logits count as -infinity; if any are +infinity, only those are
  /// candidates, with equal probability. `banned` tokens are masked. `greedy`: temperature 0 for this token.
  Sampled sample(std::span<const float> logits, std::span<const TokenId> banned = {}, bool greedy = false);
  /// Proceeds as if `token` had been sampled: later samples are those that they would be.
  Sampled force(TokenId token, std::span<const float> logits);

  // -- Sampling on the device that has the logits: request_for() describes what sample() or force() would do with a
  // row, and take() continues with the result. Without penalties, requests for later tokens can be made before the next
  // ones are known.
  /// Whether request_for() is possible: not with typical_p, nor with more changes of logits than a sample may have.
  bool can_sample_on_device(std::span<const TokenId> banned) const;
  bool knows_later_requests() const { return recent_max_ == 0; }
  bool reports() const { return params_.logprobs || params_.top_logprobs > 0; }
  /// The request for the sample `ahead` tokens after the next one, from row number `row`. Its changes are added to
  /// `changes`.
  SampleRequest request_for(int32_t row, int32_t ahead, std::span<const TokenId> banned, bool greedy,
                            std::vector<LogitChange>& changes);
  SampleRequest request_for_forced(int32_t row, TokenId token, const std::vector<LogitChange>& changes) const;
  /// Continues with the result of a request; it is not SampleResult::kNeedsHost.
  Sampled take(const SampleResult& result);

  /// The candidates and probabilities from which sample() would choose next, most likely first. For tests and
  /// inspection.
  std::vector<std::pair<TokenId, float>> distribution(std::span<const float> logits);

 private:
  std::span<const float> prepare(std::span<const float> logits, std::span<const TokenId> banned = {});
  template <class Visit>
  void for_each_recent(Visit visit);
  float penalty(int32_t count) const;
  void penalise(std::span<float> logits);
  bool truncate(std::span<const float> logits);
  void select_nucleus(std::span<const float> logits);
  double weigh_candidates();
  TokenId pick(std::span<const float> logits, bool greedy);
  void report(std::span<const float> logits, Sampled& sampled);
  void count_sampled(TokenId token);
  void remember(TokenId token);

  SamplingParams params_;
  int32_t vocabulary_;
  std::vector<TokenId> recent_;  // ring buffer of the last penalty_last tokens
  size_t recent_max_ = 0;        // 0: no penalties
  size_t recent_next_ = 0;
  std::vector<int32_t> counts_;  // [token]: how often it is in recent_; empty without penalties
  uint64_t sampled_ = 0;         // tokens sampled so far
  std::unique_ptr<SamplerScratch> own_scratch_;
  SamplerScratch* scratch_;
  float largest_ = 0;  // largest logit of the candidates, in the current call
};

}  // namespace cairn
