#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sampling/logit_scan.h"
#include "sampling/random.h"
#include "sampling/truncation.h"

namespace cairn {
namespace {

static_assert(kTopLogprobsMax <= kSampleTopMax);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Checks inclusive bounds. NaN is in no range.
Result<void> check_range(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return fail_at(field, Code::kInvalidArgument, "{} is {}; it must be from {} to {}", field, value, low, high);
}

Result<void> check_share(const char* field, float value) {
  if (value > 0 && value <= 1) return {};
  return fail_at(field, Code::kInvalidArgument, "{} is {}; it must be above 0 and at most 1", field, value);
}

bool has_penalties(const SamplingParams& params) {
  return params.penalty_last != 0 &&
         (params.repetition_penalty != 1 || params.frequency_penalty != 0 || params.presence_penalty != 0);
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

Result<void> SamplingParams::validate(int32_t vocabulary) const {
  CAIRN_TRY_VOID(check_range("temperature", temperature, 0, 2));
  if (top_k < 0) {
    return fail_at("top_k", Code::kInvalidArgument, "top_k is {}; it must be 0 (all tokens) or more", top_k);
  }
  CAIRN_TRY_VOID(check_share("top_p", top_p));
  if (!(min_p >= 0 && min_p < 1)) {
    return fail_at("min_p", Code::kInvalidArgument, "min_p is {}; it must be from 0 to below 1", min_p);
  }
  CAIRN_TRY_VOID(check_share("typical_p", typical_p));
  if (!(repetition_penalty > 0 && repetition_penalty <= 10)) {
    return fail_at("repetition_penalty", Code::kInvalidArgument,
                   "repetition_penalty is {}; it must be above 0 and at most 10", repetition_penalty);
  }
  CAIRN_TRY_VOID(check_range("frequency_penalty", frequency_penalty, -2, 2));
  CAIRN_TRY_VOID(check_range("presence_penalty", presence_penalty, -2, 2));
  if (penalty_last < -1 || penalty_last > kPenaltyLastMax) {
    return fail_at("penalty_last", Code::kInvalidArgument,
                   "penalty_last is {}; it must be from 0 to {}, or -1 for as many as that", penalty_last,
                   kPenaltyLastMax);
  }
  if (logit_bias.size() > kLogitBiasMax) {
    return fail_at("logit_bias", Code::kInvalidArgument, "logit_bias has {} entries; at most {} are allowed",
                   logit_bias.size(), kLogitBiasMax);
  }
  for (const auto& [token, bias] : logit_bias) {
    if (index(token) < 0 || index(token) >= vocabulary) {
      return fail_at("logit_bias", Code::kInvalidArgument, "logit_bias names token {}; this model has tokens 0 to {}",
                     index(token), vocabulary - 1);
    }
    if (!(bias >= -100 && bias <= 100)) {
      return fail_at("logit_bias", Code::kInvalidArgument, "logit_bias of token {} is {}; it must be from -100 to 100",
                     index(token), bias);
    }
  }
  if (top_logprobs < 0 || top_logprobs > kTopLogprobsMax) {
    return fail_at("top_logprobs", Code::kInvalidArgument, "top_logprobs is {}; it must be from 0 to {}", top_logprobs,
                   kTopLogprobsMax);
  }
  return {};
}

Sampler::Sampler(const SamplingParams& params, int32_t vocabulary, std::span<const TokenId> prompt,
                 SamplerScratch* scratch)
    : params_(params), vocabulary_(vocabulary), scratch_(scratch) {
  if (scratch_ == nullptr) {
    own_scratch_ = std::make_unique<SamplerScratch>();
    scratch_ = own_scratch_.get();
  }
  scratch_->reserve(vocabulary);
  merge_biases(params_.logit_bias);
  if (!has_penalties(params_)) return;
  recent_max_ = static_cast<size_t>(params_.penalty_last < 0 ? kPenaltyLastMax : params_.penalty_last);
  recent_.reserve(recent_max_);
  counts_.assign(static_cast<size_t>(vocabulary), 0);
  for (const TokenId token : prompt.last(std::min(recent_max_, prompt.size()))) remember(token);
}

void Sampler::remember(TokenId token) {
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

void Sampler::penalise(std::span<float> logits) {
  for_each_recent([&](TokenId token, int32_t count) {
    float& logit = logits[static_cast<size_t>(index(token))];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    logit -= penalty(count);
  });
}

// Returns the logits after bias and penalties, and sets largest_ and the scratch's block_max. Without candidates
// largest_ is -infinity; otherwise it is finite.
std::span<const float> Sampler::prepare(std::span<const float> logits, std::span<const TokenId> banned) {
  CAIRN_DCHECK(logits.size() == static_cast<size_t>(vocabulary_));
  std::vector<float>& changed = scratch_->logits;
  bool copied = false;
  if (!params_.logit_bias.empty() || !recent_.empty() || !banned.empty()) {
    changed.assign(logits.begin(), logits.end());
    for (const auto& [token, bias] : params_.logit_bias) changed[static_cast<size_t>(index(token))] += bias;
    penalise(changed);
    // Banned before any filter, so that filters choose among the allowed tokens.
    for (const TokenId token : banned) changed[static_cast<size_t>(index(token))] = -kInfinity;
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

// Puts the remaining tokens into the scratch's candidates; false if no filter limits them, and candidates are not
// filled.
bool Sampler::truncate(std::span<const float> logits) {
  std::vector<Candidate>& candidates = scratch_->candidates;
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

// Sets the candidates' weights at the request's temperature and returns their sum.
double Sampler::weigh_candidates() {
  std::vector<Candidate>& candidates = scratch_->candidates;
  double largest = candidates.front().logit;
  for (const Candidate& candidate : candidates) largest = std::max<double>(largest, candidate.logit);
  double total = 0;
  for (Candidate& candidate : candidates) {
    candidate.probability = std::exp((candidate.logit - largest) / params_.temperature);
    total += candidate.probability;
  }
  return total;
}

TokenId Sampler::pick(std::span<const float> logits, bool greedy) {
  if (largest_ == -kInfinity) return kNoToken;
  if (greedy || params_.temperature == 0) return scan_first(logits, scratch_->block_max, largest_);
  const double random = uniform(params_.seed, sampled_);
  TokenId chosen = kNoToken;  // rounding may leave the sum short of the target: then the last candidate is chosen
  if (truncate(logits)) {
    const double target = random * weigh_candidates();
    double sum = 0;
    for (const Candidate& candidate : scratch_->candidates) {
      if (candidate.probability <= 0) continue;
      chosen = candidate.token;
      sum += candidate.probability;
      if (sum > target) break;
    }
    return chosen;
  }
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

void Sampler::report(std::span<const float> logits, Sampled& sampled) {
  const float largest = scan_maxima(logits, scratch_->block_max);
  const double total = log_sum_exp(logits, largest, *scratch_);
  const auto logprob = [&](float logit) {
    if (largest == kInfinity) return static_cast<float>(logit == kInfinity ? -total : -kInfinity);
    return static_cast<float>(logit - total);
  };
  sampled.logprob = logprob(logits[static_cast<size_t>(index(sampled.token))]);
  if (params_.top_logprobs == 0) return;
  select_top_k(logits, scratch_->block_max, static_cast<size_t>(params_.top_logprobs), scratch_->candidates);
  sampled.top.reserve(scratch_->candidates.size());
  for (const Candidate& candidate : scratch_->candidates) {
    const float value = logprob(candidate.logit);
    if (value > -kInfinity) sampled.top.push_back({candidate.token, value});
  }
}

Sampled Sampler::force(TokenId token, std::span<const float> logits) {
  Sampled sampled;
  sampled.token = token;
  if (reports()) report(logits, sampled);
  count_sampled(token);
  return sampled;
}

void Sampler::count_sampled(TokenId token) {
  remember(token);
  ++sampled_;
}

Sampled Sampler::sample(std::span<const float> logits, std::span<const TokenId> banned, bool greedy) {
  const TokenId token = pick(prepare(logits, banned), greedy);
  return token == kNoToken ? Sampled{} : force(token, logits);
}

bool Sampler::can_sample_on_device(std::span<const TokenId> banned) const {
  return params_.typical_p >= 1 && params_.logit_bias.size() + recent_.size() + banned.size() <= kSampleChangesMax;
}

SampleRequest Sampler::request_for(int32_t row, int32_t ahead, std::span<const TokenId> banned, bool greedy,
                                   std::vector<LogitChange>& changes) {
  CAIRN_DCHECK(can_sample_on_device(banned) && (ahead == 0 || knows_later_requests()));
  SampleRequest request;
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
  if (params_.top_p < 1) request.top_p = params_.top_p - kProbabilitySlack;
  if (params_.min_p > 0) request.min_logit_offset = std::log(static_cast<double>(params_.min_p)) - kProbabilitySlack;
  request.random = uniform(params_.seed, sampled_ + static_cast<uint64_t>(ahead));
  if (reports()) request.top_logprobs = params_.top_logprobs;
  return request;
}

SampleRequest Sampler::request_for_forced(int32_t row, TokenId token, const std::vector<LogitChange>& changes) const {
  SampleRequest request;
  request.row = row;
  request.changes = static_cast<int32_t>(changes.size());
  request.forced = index(token);
  if (reports()) request.top_logprobs = params_.top_logprobs;
  return request;
}

Sampled Sampler::take(const SampleResult& result) {
  CAIRN_DCHECK(result.token != SampleResult::kNeedsHost);
  if (result.token == SampleResult::kNoCandidate) return {};
  Sampled sampled;
  sampled.token = TokenId{result.token};
  if (reports()) {
    const double total = result.largest + std::log(result.sum);
    sampled.logprob = static_cast<float>(result.logit - total);
    for (const SampleResult::TopToken& each : std::span(result.top).first(static_cast<size_t>(result.top_logprobs))) {
      sampled.top.push_back({TokenId{each.token}, static_cast<float>(each.logit - total)});
    }
  }
  count_sampled(sampled.token);
  return sampled;
}

std::vector<std::pair<TokenId, float>> Sampler::distribution(std::span<const float> logits) {
  const std::span<const float> in_play = prepare(logits);
  if (largest_ == -kInfinity) return {};
  if (params_.temperature == 0) return {{scan_first(in_play, scratch_->block_max, largest_), 1.0f}};
  std::vector<Candidate>& candidates = scratch_->candidates;
  if (!truncate(in_play)) select_at_least(in_play, scratch_->block_max, -kInfinity, candidates);
  const double total = weigh_candidates();
  std::sort(candidates.begin(), candidates.end(), more_likely);
  std::vector<std::pair<TokenId, float>> result;
  result.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    result.emplace_back(candidate.token, static_cast<float>(candidate.probability / total));
  }
  return result;
}

}  // namespace cairn
