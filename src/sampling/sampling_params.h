/// What a request asks of its sampler. docs/sampling.md says what each parameter does, and parameters.h has the rows of
/// those that are numbers, with their ranges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace cairn::sampling {

inline constexpr int32_t kTopLogprobsMax = 1'000;
inline constexpr size_t kLogitBiasMax = 1'024;
inline constexpr int32_t kPenaltyLastMax = 65'536;
inline constexpr float kTemperatureMax = 1'000;
inline constexpr size_t kSamplerStepsMax = 32;
inline constexpr size_t kDryBreakersMax = 64;
inline constexpr size_t kDryBreakerBytesMax = 256;

/// A step of the chain, in the default order, in which infill is not. Adaptive-p is the last one wherever it is named.
enum class SamplerStep : uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
  kInfill,
  kAdaptiveP,
};
inline constexpr std::array kDefaultSamplerSteps = {
    SamplerStep::kPenalties,   SamplerStep::kDry,       SamplerStep::kTopNSigma, SamplerStep::kTopK,
    SamplerStep::kTypicalP,    SamplerStep::kTopP,      SamplerStep::kMinP,      SamplerStep::kXtc,
    SamplerStep::kTemperature, SamplerStep::kAdaptiveP,
};

/// llama.cpp's name of a step: "top_k".
std::string_view sampler_step_name(SamplerStep step);
/// The step with one of llama.cpp's names ("typ_p", "typical", "top-k", ...).
std::optional<SamplerStep> sampler_step_named(std::string_view name);
/// The step with llama.cpp's letter: "edskypmxta" is the default order, and "i" infill.
std::optional<SamplerStep> sampler_step_of_letter(char letter);
/// The steps of an order in llama.cpp's words: names with semicolons between ("top_k;temperature"), or letters. Errors:
/// kInvalidArgument, no such step or too many.
Result<std::vector<SamplerStep>> sampler_steps_of_names(std::string_view names);
Result<std::vector<SamplerStep>> sampler_steps_of_letters(std::string_view letters);
/// What is wrong with a step that is none, as `shown`: "has no step ...; there are ...".
std::string no_sampler_step(std::string_view shown);

/// Discourages tokens that would go on with a sequence that occurred already ("don't repeat yourself").
struct DryParams {
  float multiplier = 0;
  float base = 1.75f;                                       ///< what each further token multiplies the penalty with
  int32_t allowed_length = 2;                               ///< tokens of a repetition that cost nothing
  int32_t last = -1;                                        ///< tokens of prompt and answer that are searched
  std::vector<std::string> breakers{"\n", ":", "\"", "*"};  ///< texts that no repetition reaches across
};

struct SamplingParams {
  float temperature = 1.0f;  ///< 0 is greedy
  int32_t top_k = 0;         ///< 0: all
  float top_p = 1.0f;        ///< 0: the most likely token
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f;  ///< > 1 discourages tokens among the last penalty_last
  float frequency_penalty = 0.0f;   ///< per occurrence among the last penalty_last
  float presence_penalty = 0.0f;    ///< once
  int32_t penalty_last = 64;  ///< tokens of prompt and answer to which penalties apply; -1: all (up to kPenaltyLastMax)
  DryParams dry{};
  float top_n_sigma = -1;
  float xtc_probability = 0;
  float xtc_threshold = 0.1f;
  float dynatemp_range = 0;  ///< 0: the temperature is fixed
  float dynatemp_exponent = 1;
  float adaptive_target = -1;   ///< the probability that sampled tokens have on average
  float adaptive_decay = 0.9f;  ///< how much of the average so far each token leaves
  int32_t mirostat = 0;         ///< 1 and 2 are its versions, in place of all filters
  float mirostat_tau = 5;       ///< the surprise aimed at, in bits
  float mirostat_eta = 0.1f;    ///< how fast the truncation follows
  int32_t min_keep = 0;         ///< tokens that typical_p, top_p, min_p and xtc leave at least
  /// The steps in their order, at most kSamplerStepsMax; a step that is not named is off.
  std::vector<SamplerStep> steps{kDefaultSamplerSteps.begin(), kDefaultSamplerSteps.end()};
  std::vector<std::pair<TokenId, float>> logit_bias{};  ///< -100 .. 100 each; biases of the same token are added
  uint64_t seed = 0;
  bool logprobs = false;           ///< whether to report the chosen token's log-probability
  int32_t top_logprobs = 0;        ///< and the log-probabilities of the n most likely tokens, 0 .. kTopLogprobsMax
  bool filtered_logprobs = false;  ///< of the distribution that the token was sampled from, not of the model's own

  /// kInvalidArgument naming the field and its range (logit_bias ids are checked against the vocabulary).
  Result<void> validate(int32_t vocabulary) const;
};

}  // namespace cairn::sampling
