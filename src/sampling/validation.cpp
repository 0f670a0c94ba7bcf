// What SamplingParams may hold: the ranges of the rows, and the limits of what is no number.
#include <algorithm>

#include "sampling/parameters.h"
#include "sampling/sampling_params.h"

namespace cairn::sampling {
namespace {

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

Result<void> check_breakers(const std::vector<std::string>& breakers) {
  const bool fits = breakers.size() <= kDryBreakersMax && std::ranges::all_of(breakers, [](const auto& text) {
                      return !text.empty() && text.size() <= kDryBreakerBytesMax;
                    });
  if (fits) return {};
  return fail_at("dry_sequence_breakers", Code::kInvalidArgument,
                 "dry_sequence_breakers may have at most {} texts of 1 to {} bytes", kDryBreakersMax,
                 kDryBreakerBytesMax);
}

}  // namespace

Result<void> SamplingParams::validate(int32_t vocabulary) const {
  for (const SamplingParameter& parameter : sampling_parameters()) CAIRN_TRY_VOID(parameter.check(*this));
  CAIRN_TRY_VOID(check_breakers(dry.breakers));
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

}  // namespace cairn::sampling
