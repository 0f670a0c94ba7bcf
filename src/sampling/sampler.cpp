#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>

#include "base/check.h"
#include "sampling/logit_scan.h"
#include "sampling/random.h"
#include "sampling/truncation.h"

namespace cairn::sampling {
namespace {

constexpr double kLeastMass = 1e-9;  // of which the most likely token has more
constexpr float kLogitMost = 1e30f;  // of what a step changes: it stays finite
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The random numbers that decide whether XTC acts are not those that tokens are sampled with.
constexpr uint64_t kXtcStream = 0x9D2C5680F1A3C7E1u;

bool has_penalties(const SamplingParams& params) {
  return params.penalty_last != 0 &&
         (params.repetition_penalty != 1 || params.frequency_penalty != 0 || params.presence_penalty != 0);
}

bool has_step(const std::vector<SamplerStep>& steps, SamplerStep step) {
  return std::ranges::find(steps, step) != steps.end();
}

bool does_something(const SamplingParams& params, SamplerStep step, int32_t vocabulary) {
  switch (step) {
    case SamplerStep::kPenalties:
      return has_penalties(params);
    case SamplerStep::kDry:
      return params.dry.multiplier > 0 && params.dry.last != 0;
    case SamplerStep::kTopNSigma:
      return params.top_n_sigma > 0;
    case SamplerStep::kTopK:
      return params.top_k > 0 && params.top_k < vocabulary;
    case SamplerStep::kTypicalP:
      return params.typical_p < 1;
    case SamplerStep::kTopP:
      return params.top_p < 1;
    case SamplerStep::kMinP:
      return params.min_p > 0;
    case SamplerStep::kXtc:
      return params.xtc_probability > 0 && params.xtc_threshold <= 0.5f;
    case SamplerStep::kTemperature:
      return params.temperature != 1 || params.dynatemp_range > 0;
    case SamplerStep::kInfill:
      return true;
    case SamplerStep::kAdaptiveP:
      return params.adaptive_target >= 0;
  }
  return false;
}

// Sums the biases of each token.
void merge_biases(std::vector<std::pair<TokenId, float>>& biases) {
  std::ranges::stable_sort(biases, {}, &std::pair<TokenId, float>::first);
  size_t kept = 0;
  for (const auto& [token, bias] : biases) {
    if (kept > 0 && biases[kept - 1].first == token) {
      biases[kept - 1].second += bias;
    } else {
      biases[kept++] = {token, bias};
    }
  }
  biases.resize(kept);
}

// ln of the sum of exp(logit) over the row. If there are infinite logits, only those count.
double log_sum_exp(std::span<const float> logits, float largest, SamplerScratch& scratch) {
  if (largest == kInfinity) return std::log(static_cast<double>(std::count(logits.begin(), logits.end(), kInfinity)));
  return largest + std::log(scan_weights(logits, largest, 1, scratch.weights, scratch.block_sum));
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, int32_t vocabulary, std::span<const TokenId> prompt,
                 SamplerScratch* scratch, const tokenizer::Tokenizer* tokenizer)
    : params_(params),
      vocabulary_(vocabulary),
      tokenizer_(tokenizer),
      mirostat_limit_(2.0 * params.mirostat_tau),
      // It begins as after many tokens of the target's probability.
      adaptive_sum_(params.adaptive_target / (1.0 - params.adaptive_decay)),
      adaptive_weight_(1 / (1.0 - params.adaptive_decay)),
      scratch_(scratch) {
  if (scratch_ == nullptr) {
    own_scratch_ = std::make_unique<SamplerScratch>();
    scratch_ = own_scratch_.get();
  }
  scratch_->reserve(vocabulary);
  merge_biases(params_.logit_bias);
  settle_steps();
  if (dry_first_ || has_step(steps_, SamplerStep::kDry)) dry_.emplace(params_.dry, vocabulary, tokenizer, prompt);
  if (!penalises_first_ && !has_step(steps_, SamplerStep::kPenalties)) return;
  recent_max_ = static_cast<size_t>(params_.penalty_last < 0 ? kPenaltyLastMax : params_.penalty_last);
  recent_.reserve(recent_max_);
  counts_.assign(static_cast<size_t>(vocabulary), 0);
  for (const TokenId token : prompt.last(std::min(recent_max_, prompt.size()))) remember_recent(token);
}

// What the steps come to.
void Sampler::settle_steps() {
  for (const SamplerStep step : params_.steps) {
    if (!does_something(params_, step, vocabulary_)) continue;
    if (step == SamplerStep::kAdaptiveP) {
      is_adaptive_ = params_.mirostat == 0;
    } else {
      steps_.push_back(step);
    }
  }
  const auto begins_with = [&](SamplerStep step) {
    if (steps_.empty() || steps_.front() != step) return false;
    steps_.erase(steps_.begin());
    return true;
  };
  penalises_first_ = begins_with(SamplerStep::kPenalties);
  dry_first_ = begins_with(SamplerStep::kDry);
  const auto has = [&](SamplerStep step) { return has_step(steps_, step); };
  const bool is_greedy = params_.temperature == 0 && params_.dynatemp_range == 0;
  if (params_.mirostat != 0) {
    takes_largest_ = is_greedy;
    default_order_ = false;
    return;
  }
  const auto has_any = [&](std::initializer_list<SamplerStep> steps) { return std::ranges::any_of(steps, has); };
  const bool changes_later = has_any({SamplerStep::kPenalties, SamplerStep::kDry, SamplerStep::kInfill});
  takes_largest_ = is_greedy && has(SamplerStep::kTemperature) && !has(SamplerStep::kXtc) && !changes_later;
  const bool is_dynamic = has(SamplerStep::kTemperature) && params_.dynatemp_range > 0;
  const bool has_others = changes_later || is_dynamic || has_any({SamplerStep::kTopNSigma, SamplerStep::kXtc});
  const bool in_order = std::ranges::is_sorted(steps_, std::ranges::less_equal{}, {});
  default_order_ = !is_adaptive_ && (steps_.empty() || (in_order && !has_others && params_.min_keep <= 1));
  if (!default_order_) return;
  if (!has(SamplerStep::kTopK)) params_.top_k = 0;
  if (!has(SamplerStep::kTypicalP)) params_.typical_p = 1;
  if (!has(SamplerStep::kTopP)) params_.top_p = 1;
  if (!has(SamplerStep::kMinP)) params_.min_p = 0;
  if (!has(SamplerStep::kTemperature)) params_.temperature = 1;
}

void Sampler::remember_recent(TokenId token) {
  if (recent_max_ == 0) return;
  if (recent_.size() < recent_max_) {
    recent_.push_back(token);
  } else {
    --counts_[static_cast<size_t>(index(recent_[recent_next_]))];
    recent_[recent_next_] = token;
    recent_next_ = (recent_next_ + 1) % recent_max_;
  }
  ++counts_[static_cast<size_t>(index(token))];
}

// Calls visit(token, count) once for each distinct token among the last ones.
template <class Visit>
void Sampler::for_each_recent(Visit visit) {
  // Counts are negated to mark tokens that were visited.
  for (const TokenId token : recent_) {
    int32_t& count = counts_[static_cast<size_t>(index(token))];
    if (count < 0) continue;
    visit(token, count);
    count = -count;
  }
  for (const TokenId token : recent_) {
    int32_t& count = counts_[static_cast<size_t>(index(token))];
    count = std::abs(count);
  }
}

float Sampler::penalty(int32_t count) const {
  return static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty;
}

float Sampler::penalised(float logit, int32_t count) const {
  return (logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty) - penalty(count);
}

void Sampler::penalise(std::span<float> logits) {
  if (penalises_first_) {
    for_each_recent([&](TokenId token, int32_t count) {
      float& logit = logits[static_cast<size_t>(index(token))];
      logit = penalised(logit, count);
    });
  }
  if (!dry_first_) return;
  for (const DryPenalty::Match& match : dry_->matches())
    logits[static_cast<size_t>(index(match.token))] -= dry_->penalty(match.length);
}

// Logits of tokens without a set bit, and behind the last word, become -infinity.
static void mask_others(std::span<float> logits, std::span<const uint64_t> allowed) {
  for (size_t begin = 0; begin < logits.size(); begin += 64) {
    const uint64_t word = begin / 64 < allowed.size() ? allowed[begin / 64] : 0;
    if (word == ~uint64_t{0}) continue;
    const size_t end = std::min(begin + 64, logits.size());
    for (size_t i = begin; i < end; ++i)
      if ((word >> (i - begin) & 1) == 0) logits[i] = -kInfinity;
  }
}

// Returns the logits after bias and penalties, and sets largest_ and the scratch's block_max. Without candidates
// largest_ is -infinity; otherwise it is finite.
std::span<const float> Sampler::prepare(std::span<const float> logits, std::span<const TokenId> banned,
                                        std::span<const uint64_t> allowed) {
  CAIRN_DCHECK(logits.size() == static_cast<size_t>(vocabulary_));
  std::vector<float>& changed = scratch_->logits;
  bool copied = false;
  if (!params_.logit_bias.empty() || (penalises_first_ && !recent_.empty()) || dry_first_ || !banned.empty() ||
      !allowed.empty()) {
    changed.assign(logits.begin(), logits.end());
    for (const auto& [token, bias] : params_.logit_bias) changed[static_cast<size_t>(index(token))] += bias;
    penalise(changed);
    // Banned before any filter, so that filters choose among the allowed tokens.
    for (const TokenId token : banned) changed[static_cast<size_t>(index(token))] = -kInfinity;
    if (!allowed.empty()) mask_others(changed, allowed);
    copied = true;
  }
  std::span<const float> in_play = copied ? std::span<const float>(changed) : logits;
  largest_ = scan_maxima(in_play, scratch_->block_max);
  if (largest_ == kInfinity) {
    if (!copied) changed.assign(logits.begin(), logits.end());
    for (float& logit : changed) logit = logit == kInfinity ? 0.0f : -kInfinity;
    in_play = changed;
    largest_ = scan_maxima(in_play, scratch_->block_max);
  }
  return in_play;
}

// Applies top-p and min-p over the whole vocabulary. Both keep the most likely tokens, so only those near the largest
// logit are collected, and more if they are not enough.
void Sampler::select_nucleus(std::span<const float> logits) {
  std::vector<Candidate>& candidates = scratch_->candidates;
  double least = -std::numeric_limits<double>::infinity();
  if (params_.min_p > 0) least = largest_ + std::log(static_cast<double>(params_.min_p)) - kProbabilitySlack;
  if (params_.top_p >= 1) {
    select_at_least(logits, scratch_->block_max, least, candidates);
    return;
  }
  const double total = scan_weights(logits, largest_, 1, scratch_->weights, scratch_->block_sum);
  constexpr std::array<double, 4> kDepths = {4, 8, 16, std::numeric_limits<double>::infinity()};
  for (const double depth : kDepths) {
    const double threshold = std::max(least, largest_ - depth);
    select_at_least(logits, scratch_->block_max, threshold, candidates);
    double mass = 0;
    for (Candidate& candidate : candidates) {
      candidate.probability = std::exp(static_cast<double>(candidate.logit) - largest_) / total;
      mass += candidate.probability;
    }
    if (mass >= params_.top_p || threshold == least) break;
  }
  keep_top_p(candidates, params_.top_p);
}

// Applies a step to the candidates. `last`: no step comes after it.
void Sampler::apply(SamplerStep step, bool last) {
  std::vector<Candidate>& candidates = scratch_->candidates;
  const auto min_keep = static_cast<size_t>(std::max(1, params_.min_keep));
  switch (step) {
    case SamplerStep::kPenalties:
      for (Candidate& candidate : candidates) {
        const int32_t count = counts_[static_cast<size_t>(index(candidate.token))];
        if (count > 0) candidate.logit = std::clamp(penalised(candidate.logit, count), -kLogitMost, kLogitMost);
      }
      return;
    case SamplerStep::kDry:
      if (dry_->matches().empty()) return;
      for (Candidate& candidate : candidates) candidate.logit -= dry_->penalty_of(candidate.token);
      return;
    case SamplerStep::kTopNSigma:
      return keep_within_sigmas(candidates, params_.top_n_sigma);
    case SamplerStep::kTopK:
      return keep_top_k(candidates, static_cast<size_t>(params_.top_k));
    case SamplerStep::kTypicalP:
      return keep_typical(candidates, params_.typical_p, min_keep);
    case SamplerStep::kTopP:
      normalise(candidates);
      return keep_top_p(candidates, params_.top_p, min_keep);
    case SamplerStep::kMinP:
      return keep_min_p(candidates, params_.min_p, min_keep);
    case SamplerStep::kXtc:
      if (uniform(mix_bits(params_.seed ^ kXtcStream), sampled_) < params_.xtc_probability)
        drop_top_choices(candidates, params_.xtc_threshold, min_keep);
      return;
    case SamplerStep::kTemperature:
      return apply_temperature(last);
    case SamplerStep::kInfill:
      if (tokenizer_ != nullptr) keep_infill(candidates, *tokenizer_);
      return;
    case SamplerStep::kAdaptiveP:  // weigh_candidates() does it
      return;
  }
}

void Sampler::apply_temperature(bool last) {
  std::vector<Candidate>& candidates = scratch_->candidates;
  double temperature = params_.temperature;
  if (params_.dynatemp_range > 0) {
    temperature = dynamic_temperature(candidates, temperature, params_.dynatemp_range, params_.dynatemp_exponent);
  }
  if (temperature <= 0) return keep_top_k(candidates, 1);
  if (last) {
    temperature_ = temperature;
    return;
  }
  for (Candidate& candidate : candidates) {
    candidate.logit = static_cast<float>(std::clamp<double>(candidate.logit / temperature, -kLogitMost, kLogitMost));
  }
}

void Sampler::truncate_in_order(std::span<const float> logits) {
  std::vector<Candidate>& candidates = scratch_->candidates;
  size_t next = 0;
  const bool filters = params_.mirostat == 0 && !steps_.empty();
  if (filters && steps_.front() == SamplerStep::kTopK) {
    select_top_k(logits, scratch_->block_max, static_cast<size_t>(params_.top_k), candidates);
    next = 1;
  } else {
    double least = -kInfinity;
    if (filters && steps_.front() == SamplerStep::kTopNSigma) {
      least = least_within_sigmas(logits, largest_, params_.top_n_sigma);
      next = 1;
    }
    select_at_least(logits, scratch_->block_max, least, candidates);
  }
  temperature_ = 1;
  if (params_.mirostat != 0) {
    temperature_ = params_.temperature;
    return params_.mirostat == 1 ? keep_mirostat1(candidates, mirostat_limit_, temperature_, vocabulary_)
                                 : keep_mirostat2(candidates, mirostat_limit_, temperature_);
  }
  for (; next < steps_.size(); ++next) apply(steps_[next], next + 1 == steps_.size());
}

// Puts the remaining tokens into the scratch's candidates; false if no filter limits them, and candidates are not
// filled.
bool Sampler::truncate(std::span<const float> logits) {
  std::vector<Candidate>& candidates = scratch_->candidates;
  if (!default_order_) {
    truncate_in_order(logits);
    return true;
  }
  temperature_ = params_.temperature;
  const bool by_rank = params_.top_k > 0 && params_.top_k < vocabulary_;
  const bool typical = params_.typical_p < 1;
  if (!by_rank && !typical) {
    if (params_.top_p >= 1 && params_.min_p <= 0) return false;
    select_nucleus(logits);
    return true;
  }
  if (by_rank) {
    select_top_k(logits, scratch_->block_max, static_cast<size_t>(params_.top_k), candidates);
  } else {
    select_at_least(logits, scratch_->block_max, -kInfinity, candidates);
  }
  if (typical) keep_typical(candidates, params_.typical_p);
  if (params_.top_p < 1) {
    normalise(candidates);
    keep_top_p(candidates, params_.top_p);
  }
  keep_min_p(candidates, params_.min_p);
  return true;
}

// Sets the candidates' weights and returns their sum.
double Sampler::weigh_candidates() {
  std::vector<Candidate>& candidates = scratch_->candidates;
  double largest = candidates.front().logit;
  for (const Candidate& candidate : candidates) largest = std::max<double>(largest, candidate.logit);
  double total = 0;
  for (Candidate& candidate : candidates) {
    candidate.probability = std::exp((candidate.logit - largest) / temperature_);
    total += candidate.probability;
  }
  return is_adaptive_ ? favour_adapted_target(total, largest) : total;
}

// Adaptive-p: the nearer a candidate's probability is to the target, the more likely it becomes. The target is moved by
// as much as the average of what has been sampled is off. Constants and form: llama.cpp, pull request 17927.
double Sampler::favour_adapted_target(double total, double largest) {
  constexpr double kWidth = 0.3;
  constexpr double kSharpness = 10;
  total_ = total;
  largest_weighed_ = largest;
  const double wanted = params_.adaptive_target;
  const double target = std::clamp(2 * wanted - adaptive_sum_ / adaptive_weight_, 0.0, 1.0);
  double sum = 0;
  for (Candidate& candidate : scratch_->candidates) {
    const double distance = std::abs(candidate.probability / total - target) / kWidth;
    candidate.probability = std::exp(-kSharpness * distance * distance / (1 + distance));
    sum += candidate.probability;
  }
  return sum;
}

// Chooses one of the candidates. Rounding may leave their sum short of the target: then it is the last one.
TokenId Sampler::pick_candidate(double random) {
  const double total = weigh_candidates();
  const double target = random * total;
  const Candidate* chosen = nullptr;
  double sum = 0;
  for (const Candidate& candidate : scratch_->candidates) {
    if (candidate.probability <= 0) continue;
    chosen = &candidate;
    sum += candidate.probability;
    if (sum > target) break;
  }
  if (params_.mirostat != 0) {
    const double surprise = -std::log2(chosen->probability / total);
    mirostat_limit_ -= params_.mirostat_eta * (surprise - params_.mirostat_tau);
  }
  if (is_adaptive_) {
    chosen_probability_ = std::exp((chosen->logit - largest_weighed_) / temperature_) / total_;
  }
  return chosen->token;
}

TokenId Sampler::pick(std::span<const float> logits, bool greedy) {
  if (largest_ == -kInfinity) return kNoToken;
  if (greedy || takes_largest_) return scan_first(logits, scratch_->block_max, largest_);
  const double random = uniform(params_.seed, sampled_);
  return truncate(logits) ? pick_candidate(random) : pick_unfiltered(logits, random);
}

TokenId Sampler::pick_unfiltered(std::span<const float> logits, double random) {
  TokenId chosen = kNoToken;
  const double total = scan_weights(logits, largest_, params_.temperature, scratch_->weights, scratch_->block_sum);
  const double target = random * total;
  const std::vector<double>& block_sum = scratch_->block_sum;
  double sum = 0;
  size_t block = 0;
  size_t last_block = 0;
  for (; block < block_sum.size(); ++block) {
    if (block_sum[block] > 0) last_block = block;
    if (sum + block_sum[block] > target) break;
    sum += block_sum[block];
  }
  if (block == block_sum.size()) block = last_block;
  const size_t end = std::min((block + 1) * kScanBlock, logits.size());
  for (size_t i = block * kScanBlock; i < end; ++i) {
    if (scratch_->weights[i] <= 0) continue;
    chosen = TokenId{static_cast<int32_t>(i)};
    sum += scratch_->weights[i];
    if (sum > target) break;
  }
  return chosen;
}

Sampled Sampler::rate(TokenId token, int32_t top, std::span<const float> logits) {
  const float largest = scan_maxima(logits, scratch_->block_max);
  Sampled sampled{.token = token};
  if (largest == -kInfinity) return {};
  const double total = log_sum_exp(logits, largest, *scratch_);
  const auto logprob = [&](float logit) {
    if (largest == kInfinity) return static_cast<float>(logit == kInfinity ? -total : -kInfinity);
    return static_cast<float>(logit - total);
  };
  sampled.logprob = logprob(logits[static_cast<size_t>(index(sampled.token))]);
  if (top == 0) return sampled;
  select_top_k(logits, scratch_->block_max, static_cast<size_t>(top), scratch_->candidates);
  sampled.top.reserve(scratch_->candidates.size());
  for (const Candidate& candidate : scratch_->candidates) {
    const float value = logprob(candidate.logit);
    if (value > -kInfinity) sampled.top.push_back({candidate.token, value});
  }
  return sampled;
}

// What the last pick() chose from.
void Sampler::report_filtered(std::span<const float> logits, bool greedy, Sampled& sampled) {
  std::vector<Candidate>& candidates = scratch_->candidates;
  const auto top = static_cast<size_t>(params_.top_logprobs);
  if (greedy || takes_largest_) {
    select_top_k(logits, scratch_->block_max, std::max<size_t>(1, top), candidates);
    for (Candidate& candidate : candidates) candidate.probability = candidate.token == sampled.token ? 1 : 0;
  } else {
    if (default_order_ && !truncate(logits)) select_at_least(logits, scratch_->block_max, -kInfinity, candidates);
    const double total = weigh_candidates();
    for (Candidate& candidate : candidates) candidate.probability /= total;
  }
  const auto chosen = std::ranges::find(candidates, sampled.token, &Candidate::token);
  sampled.logprob = static_cast<float>(std::log(chosen->probability));
  if (is_adaptive_) {
    std::ranges::stable_sort(candidates, std::greater(), &Candidate::probability);
    candidates.resize(std::min(candidates.size(), top));
  } else {
    keep_top_k(candidates, top);
  }
  for (const Candidate& candidate : candidates)
    sampled.top.push_back({candidate.token, static_cast<float>(std::log(candidate.probability))});
}

Sampled Sampler::force(TokenId token, std::span<const float> logits) {
  Sampled sampled = reports() ? rate(token, params_.top_logprobs, logits) : Sampled{};
  sampled.token = token;
  count_sampled(token);
  return sampled;
}

void Sampler::remember(TokenId token) {
  remember_recent(token);
  if (dry_) dry_->remember(token);
}

void Sampler::count_sampled(TokenId token) {
  remember(token);
  ++sampled_;
  if (!chosen_probability_) return;
  adaptive_sum_ = *chosen_probability_ + params_.adaptive_decay * adaptive_sum_;
  adaptive_weight_ = 1 + params_.adaptive_decay * adaptive_weight_;
  chosen_probability_.reset();
}

Sampled Sampler::sample(std::span<const float> logits, std::span<const TokenId> banned, bool greedy,
                        std::span<const uint64_t> allowed) {
  const std::span<const float> in_play = prepare(logits, banned, allowed);
  const TokenId token = pick(in_play, greedy);
  if (token == kNoToken) return {};
  if (!reports() || !params_.filtered_logprobs) return force(token, logits);
  Sampled sampled;
  sampled.token = token;
  report_filtered(in_play, greedy, sampled);
  count_sampled(token);
  return sampled;
}

bool Sampler::can_sample_on_device(std::span<const TokenId> banned) const {
  if (!default_order_ || params_.typical_p < 1 || dry_ || !reports_on_device()) return false;
  return params_.logit_bias.size() + recent_.size() + banned.size() <= kernels::kSampleChangesMax;
}

kernels::SampleRequest Sampler::request_for(int32_t row, int32_t ahead, std::span<const TokenId> banned, bool greedy,
                                            std::vector<kernels::LogitChange>& changes) {
  CAIRN_DCHECK(can_sample_on_device(banned) && (ahead == 0 || knows_later_requests()));
  kernels::SampleRequest request;
  request.row = row;
  request.changes = static_cast<int32_t>(changes.size());
  for (const auto& [token, bias] : params_.logit_bias) changes.push_back({index(token), bias});
  request.biases = static_cast<int32_t>(params_.logit_bias.size());
  for_each_recent([&](TokenId token, int32_t count) { changes.push_back({index(token), penalty(count)}); });
  request.penalties = static_cast<int32_t>(changes.size()) - request.changes - request.biases;
  for (const TokenId token : banned) changes.push_back({index(token), 0});
  request.masked = static_cast<int32_t>(banned.size());
  request.repetition = params_.repetition_penalty;
  request.temperature = greedy ? 0 : params_.temperature;
  request.top_k = params_.top_k;
  if (params_.top_p < 1) request.top_p = std::max(kLeastMass, params_.top_p - kProbabilitySlack);
  if (params_.min_p > 0) request.min_logit_offset = std::log(static_cast<double>(params_.min_p)) - kProbabilitySlack;
  request.random = uniform(params_.seed, sampled_ + static_cast<uint64_t>(ahead));
  if (reports()) request.top_logprobs = params_.top_logprobs;
  return request;
}

kernels::SampleRequest Sampler::request_for_forced(int32_t row, TokenId token,
                                                   const std::vector<kernels::LogitChange>& changes) const {
  kernels::SampleRequest request;
  request.row = row;
  request.changes = static_cast<int32_t>(changes.size());
  request.forced = index(token);
  if (reports()) request.top_logprobs = params_.top_logprobs;
  return request;
}

Sampled Sampler::take(const kernels::SampleResult& result) {
  CAIRN_DCHECK(result.token != kernels::SampleResult::kNeedsHost);
  if (result.token == kernels::SampleResult::kNoCandidate) return {};
  Sampled sampled;
  sampled.token = TokenId{result.token};
  if (reports()) {
    const double total = result.largest + std::log(result.sum);
    sampled.logprob = static_cast<float>(result.logit - total);
    for (const auto& each : std::span(result.top).first(static_cast<size_t>(result.top_logprobs)))
      sampled.top.push_back({TokenId{each.token}, static_cast<float>(each.logit - total)});
  }
  count_sampled(sampled.token);
  return sampled;
}

std::vector<std::pair<TokenId, float>> Sampler::distribution(std::span<const float> logits) {
  const std::span<const float> in_play = prepare(logits);
  if (largest_ == -kInfinity) return {};
  if (takes_largest_) return {{scan_first(in_play, scratch_->block_max, largest_), 1.0f}};
  std::vector<Candidate>& candidates = scratch_->candidates;
  if (!truncate(in_play)) select_at_least(in_play, scratch_->block_max, -kInfinity, candidates);
  const double total = weigh_candidates();
  std::sort(candidates.begin(), candidates.end(), more_likely);
  // Adaptive-p's probabilities do not follow the logits.
  if (is_adaptive_) std::ranges::stable_sort(candidates, std::greater(), &Candidate::probability);
  std::vector<std::pair<TokenId, float>> result;
  result.reserve(candidates.size());
  for (const Candidate& each : candidates) result.emplace_back(each.token, each.probability / total);
  return result;
}

}  // namespace cairn::sampling
