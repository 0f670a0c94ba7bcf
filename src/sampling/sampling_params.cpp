#include "sampling/sampling_params.h"

#include <algorithm>

namespace cairn {
namespace {

struct StepName {
  std::string_view name;
  SamplerStep step;
};
// The first name of a step is the one that is shown.
constexpr StepName kStepNames[] = {
    {"penalties", SamplerStep::kPenalties},
    {"dry", SamplerStep::kDry},
    {"top_n_sigma", SamplerStep::kTopNSigma},
    {"top-n-sigma", SamplerStep::kTopNSigma},
    {"top_k", SamplerStep::kTopK},
    {"top-k", SamplerStep::kTopK},
    {"typ_p", SamplerStep::kTypicalP},
    {"typ-p", SamplerStep::kTypicalP},
    {"typ", SamplerStep::kTypicalP},
    {"typical", SamplerStep::kTypicalP},
    {"typical_p", SamplerStep::kTypicalP},
    {"typical-p", SamplerStep::kTypicalP},
    {"top_p", SamplerStep::kTopP},
    {"top-p", SamplerStep::kTopP},
    {"nucleus", SamplerStep::kTopP},
    {"min_p", SamplerStep::kMinP},
    {"min-p", SamplerStep::kMinP},
    {"xtc", SamplerStep::kXtc},
    {"temperature", SamplerStep::kTemperature},
    {"temp", SamplerStep::kTemperature},
    {"infill", SamplerStep::kInfill},
    {"adaptive_p", SamplerStep::kAdaptiveP},
    {"adaptive-p", SamplerStep::kAdaptiveP},
};
constexpr std::string_view kStepLetters = "edskypmxtia";  // in the order of SamplerStep

// Checks inclusive bounds. NaN is in no range.
Result<void> check_range(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return fail_at(field, Code::kInvalidArgument, "{} is {}; it must be from {} to {}", field, value, low, high);
}

Result<void> check_at_least(const char* field, int32_t value, int32_t low) {
  if (value >= low) return {};
  return fail_at(field, Code::kInvalidArgument, "{} is {}; it must be {} or more", field, value, low);
}

Result<void> check_last(const char* field, int32_t value) {
  if (value >= -1 && value <= kPenaltyLastMax) return {};
  return fail_at(field, Code::kInvalidArgument, "{} is {}; it must be from 0 to {}, or -1 for as many as that", field,
                 value, kPenaltyLastMax);
}

Result<void> check_bias(const std::vector<std::pair<TokenId, float>>& logit_bias, int32_t vocabulary) {
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
  return {};
}

Result<void> check_dry(const DryParams& dry) {
  CAIRN_TRY_VOID(check_range("dry_multiplier", dry.multiplier, 0, 1'000));
  CAIRN_TRY_VOID(check_range("dry_base", dry.base, 1, 100));
  CAIRN_TRY_VOID(check_at_least("dry_allowed_length", dry.allowed_length, 0));
  CAIRN_TRY_VOID(check_last("dry_penalty_last_n", dry.last));
  const bool fits = dry.breakers.size() <= kDryBreakersMax && std::ranges::all_of(dry.breakers, [](const auto& text) {
                      return !text.empty() && text.size() <= kDryBreakerBytesMax;
                    });
  if (fits) return {};
  return fail_at("dry_sequence_breakers", Code::kInvalidArgument,
                 "dry_sequence_breakers may have at most {} texts of 1 to {} bytes", kDryBreakersMax,
                 kDryBreakerBytesMax);
}

}  // namespace

std::string_view sampler_step_name(SamplerStep step) {
  return std::ranges::find(kStepNames, step, &StepName::step)->name;
}

std::optional<SamplerStep> sampler_step_named(std::string_view name) {
  const auto* found = std::ranges::find(kStepNames, name, &StepName::name);
  return found == std::end(kStepNames) ? std::nullopt : std::optional(found->step);
}

std::optional<SamplerStep> sampler_step_of_letter(char letter) {
  const size_t at = kStepLetters.find(letter);
  return at == std::string_view::npos ? std::nullopt : std::optional(static_cast<SamplerStep>(at));
}

Result<void> SamplingParams::validate(int32_t vocabulary) const {
  constexpr float kSigmasMax = 1'000;
  CAIRN_TRY_VOID(check_range("temperature", temperature, 0, kTemperatureMax));
  if (top_k < 0) {
    return fail_at("top_k", Code::kInvalidArgument, "top_k is {}; it must be 0 (all tokens) or more", top_k);
  }
  CAIRN_TRY_VOID(check_range("top_p", top_p, 0, 1));
  CAIRN_TRY_VOID(check_range("min_p", min_p, 0, 1));
  CAIRN_TRY_VOID(check_range("typical_p", typical_p, 0, 1));
  if (!(repetition_penalty > 0 && repetition_penalty <= 10)) {
    return fail_at("repetition_penalty", Code::kInvalidArgument,
                   "repetition_penalty is {}; it must be above 0 and at most 10", repetition_penalty);
  }
  CAIRN_TRY_VOID(check_range("frequency_penalty", frequency_penalty, -2, 2));
  CAIRN_TRY_VOID(check_range("presence_penalty", presence_penalty, -2, 2));
  CAIRN_TRY_VOID(check_last("penalty_last", penalty_last));
  CAIRN_TRY_VOID(check_dry(dry));
  if (!(top_n_sigma <= kSigmasMax)) {
    return fail_at("top_n_sigma", Code::kInvalidArgument, "top_n_sigma is {}; it must be at most {}", top_n_sigma,
                   kSigmasMax);
  }
  CAIRN_TRY_VOID(check_range("xtc_probability", xtc_probability, 0, 1));
  if (!(xtc_threshold >= 0)) {
    return fail_at("xtc_threshold", Code::kInvalidArgument, "xtc_threshold is {}; it must be 0 or more", xtc_threshold);
  }
  CAIRN_TRY_VOID(check_range("dynatemp_range", dynatemp_range, 0, kTemperatureMax));
  CAIRN_TRY_VOID(check_range("dynatemp_exponent", dynatemp_exponent, 0, 100));
  if (!(adaptive_target <= 1)) {
    return fail_at("adaptive_target", Code::kInvalidArgument, "adaptive_target is {}; it must be at most 1",
                   adaptive_target);
  }
  CAIRN_TRY_VOID(check_range("adaptive_decay", adaptive_decay, 0, kAdaptiveDecayMax));
  if (mirostat < 0 || mirostat > 2) {
    return fail_at("mirostat", Code::kInvalidArgument, "mirostat is {}; it must be 0, 1 or 2", mirostat);
  }
  CAIRN_TRY_VOID(check_range("mirostat_tau", mirostat_tau, 0, 100));
  CAIRN_TRY_VOID(check_range("mirostat_eta", mirostat_eta, 0, 1));
  CAIRN_TRY_VOID(check_at_least("min_keep", min_keep, 0));
  if (steps.size() > kSamplerStepsMax) {
    return fail_at("samplers", Code::kInvalidArgument, "samplers has {} steps; at most {} are allowed", steps.size(),
                   kSamplerStepsMax);
  }
  CAIRN_TRY_VOID(check_bias(logit_bias, vocabulary));
  if (top_logprobs < 0 || top_logprobs > kTopLogprobsMax) {
    return fail_at("top_logprobs", Code::kInvalidArgument, "top_logprobs is {}; it must be from 0 to {}", top_logprobs,
                   kTopLogprobsMax);
  }
  return {};
}

}  // namespace cairn
