/// Samples a token from logits: the chain of filters of one request.
///
/// Order, unless the request has its own (docs/sampling.md): logit bias, repetition / frequency / presence penalties,
/// DRY, banned tokens, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, temperature, sample. Each filter sees the
/// probabilities, at temperature 1, of what the filters before it left. Adaptive-p changes the probabilities of what is
/// left at last. temperature 0 takes the largest logit that is
/// left (ties: lower id).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "kernels/sampler_operations.h"
#include "sampling/candidates.h"
#include "sampling/dry_penalty.h"
#include "sampling/sampling_params.h"  // IWYU pragma: export

namespace cairn::sampling {

struct TokenLogprob {
  TokenId token = kNoToken;
  /// Natural log of the model's own probability, softmax of the raw logits, or of what was sampled from:
  /// SamplingParams::filtered_logprobs.
  float logprob = 0;
};

struct Sampled {
  TokenId token = kNoToken;         ///< kNoToken: no logit is above -infinity, so the model has failed
  float logprob = 0;                ///< if requested
  std::vector<TokenLogprob> top{};  ///< most likely first, if requested; fewer if fewer have a probability above 0
};

/// State of one request. The sample for the i-th token of a request depends on (seed, i), the request's own tokens and
/// their logits alone, so neither the batch nor a restart after preemption changes it. Not thread-safe.
class Sampler {
 public:
  /// `params` are valid. `prompt`: tokens to which penalties apply before the first token. `scratch`: memory shared by
  /// samplers on one thread, which outlives this; null: the sampler has its own. `tokenizer` outlives this; null: no
  /// text breaks DRY's sequences. Afterwards only reported log-probabilities allocate.
  Sampler(const SamplingParams& params, int32_t vocabulary, std::span<const TokenId> prompt,
          SamplerScratch* scratch = nullptr, const tokenizer::Tokenizer* tokenizer = nullptr);

  /// logits [vocabulary] are not changed. NaN logits count as -infinity; if any are +infinity, only those are
  /// candidates, with equal probability. `banned` tokens are masked, and those whose bit
  /// is not set in `allowed` (64 tokens a word, lowest bit first; empty: all are). `greedy`: temperature 0 for this
  /// token.
  Sampled sample(std::span<const float> logits, std::span<const TokenId> banned = {}, bool greedy = false,
                 std::span<const uint64_t> allowed = {});
  /// The log-probability of any token in the row as the model gave it, with the `top` most likely ones, whatever is
  /// sampled. kNoToken: no logit is above -infinity.
  Sampled rate(TokenId token, int32_t top, std::span<const float> logits);
  /// Proceeds as if `token` had been sampled: later samples are those that they would be.
  Sampled force(TokenId token, std::span<const float> logits);

  // -- Sampling on the device that has the logits: request_for() describes what sample() or force() would do with a
  // row, and take() continues with the result. Without penalties, requests for later tokens can be made before the next
  // ones are known.
  /// Whether request_for() is possible: with penalties, top_k, top_p, min_p and temperature in this order, and no more
  /// changes of logits than a sample may have.
  bool can_sample_on_device(std::span<const TokenId> banned) const;
  bool knows_later_requests() const { return recent_max_ == 0; }
  /// Whether a device can report as much as is asked for.
  bool reports_on_device() const {
    return params_.top_logprobs <= kernels::kSampleTopMax && !(reports() && params_.filtered_logprobs);
  }
  bool reports() const { return params_.logprobs || params_.top_logprobs > 0; }
  /// The request for the sample `ahead` tokens after the next one, from row number `row`. Its changes are added to
  /// `changes`.
  kernels::SampleRequest request_for(int32_t row, int32_t ahead, std::span<const TokenId> banned, bool greedy,
                                     std::vector<kernels::LogitChange>& changes);
  kernels::SampleRequest request_for_forced(int32_t row, TokenId token,
                                            const std::vector<kernels::LogitChange>& changes) const;
  /// Continues with the result of a request; it is not SampleResult::kNeedsHost.
  Sampled take(const kernels::SampleResult& result);

  /// The candidates and probabilities from which sample() would choose next, most likely first. For tests and
  /// inspection.
  std::vector<std::pair<TokenId, float>> distribution(std::span<const float> logits);

 private:
  std::span<const float> prepare(std::span<const float> logits, std::span<const TokenId> banned = {},
                                 std::span<const uint64_t> allowed = {});
  void settle_steps();
  template <class Visit>
  void for_each_recent(Visit visit);
  float penalty(int32_t count) const;
  float penalised(float logit, int32_t count) const;
  void penalise(std::span<float> logits);
  bool truncate(std::span<const float> logits);
  void truncate_in_order(std::span<const float> logits);
  void apply(SamplerStep step, bool last);
  void apply_temperature(bool last);
  void select_nucleus(std::span<const float> logits);
  double weigh_candidates();
  TokenId pick(std::span<const float> logits, bool greedy);
  TokenId pick_candidate(double random);
  double favour_adapted_target(double total, double largest);
  TokenId pick_unfiltered(std::span<const float> logits, double random);
  void report_filtered(std::span<const float> logits, bool greedy, Sampled& sampled);
  void count_sampled(TokenId token);
  void remember(TokenId token);
  void remember_recent(TokenId token);

  SamplingParams params_;
  int32_t vocabulary_;
  const tokenizer::Tokenizer* tokenizer_;
  std::vector<TokenId> recent_;  // ring buffer of the last penalty_last tokens
  size_t recent_max_ = 0;        // 0: no penalties
  size_t recent_next_ = 0;
  std::vector<int32_t> counts_;  // [token]: how often it is in recent_; empty without penalties
  std::optional<DryPenalty> dry_;
  bool penalises_first_ = false;    // penalties come before all filters
  bool dry_first_ = false;          // the same for DRY
  std::vector<SamplerStep> steps_;  // those that do something, without penalties and DRY if those come first
  bool default_order_ = true;       // steps_ are what truncate() does in one go
  bool takes_largest_ = false;      // whatever is left, the largest logit is taken
  double mirostat_limit_ = 0;       // bits
  bool is_adaptive_ = false;        // adaptive-p acts
  double adaptive_sum_ = 0;         // of the sampled tokens' probabilities, each weighed by its age
  double adaptive_weight_ = 0;      // sum of these weights
  uint64_t sampled_ = 0;            // tokens sampled so far
  std::unique_ptr<SamplerScratch> own_scratch_;
  SamplerScratch* scratch_;
  double total_ = 0;                          // sum of weights of the candidates before adaptive-p, in the current call
  double largest_weighed_ = 0;                // the logit whose weight is 1 in it
  std::optional<double> chosen_probability_;  // among the candidates before adaptive-p, until it is counted
  float largest_ = 0;                         // largest logit of the candidates, in the current call
  double temperature_ = 1;                    // at which the candidates that are left are weighed
};

}  // namespace cairn::sampling
