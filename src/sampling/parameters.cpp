#include "sampling/parameters.h"

#include <cmath>

namespace cairn::sampling {
namespace {

constexpr double kMost = SamplingParameter::kNoHigh;

constexpr SamplingParameter kSamplingParameters[] = {
    {.name = "temperature",
     .recommended = "temp",
     .flags = "--temp,--temperature",
     .member = &SamplingParams::temperature,
     .high = kTemperatureMax,
     .label = "Temperature",
     .text = "Divides the logits before sampling; 0 always takes the most likely token"},
    {.name = "top_k",
     .recommended = "top_k",
     .flags = "--top-k",
     .member = &SamplingParams::top_k,
     .high = kMost,
     .low_means = "all tokens",
     .under_low = SamplingParameter::UnderLow{.from = -1, .is_low = true},  // vLLM's "off"
     .off = 0,
     .label = "Top k",
     .text = "Keeps only the k most likely tokens"},
    {.name = "top_p",
     .recommended = "top_p",
     .flags = "--top-p",
     .member = &SamplingParams::top_p,
     .off = 1,
     .label = "Top p",
     .text = "Keeps the most likely tokens that together have this probability; 0 keeps only the most likely one"},
    {.name = "min_p",
     .recommended = "min_p",
     .flags = "--min-p",
     .member = &SamplingParams::min_p,
     .off = 0,
     .label = "Min p",
     .text = "Drops tokens whose probability is below this fraction of the most likely token's"},
    {.name = "typical_p",
     .alias = "typ_p",
     .flags = "--typical,--typical-p",
     .member = &SamplingParams::typical_p,
     .off = 1,
     .label = "Typical p",
     .text =
         "Keeps the tokens whose surprise is closest to the expected one, until they together have this probability"},
    {.name = "penalty_last_n",
     .alias = "repeat_last_n",
     .llama_name = "repeat_last_n",
     .recommended = "penalty_last_n",
     .flags = "--repeat-last-n",
     .member = &SamplingParams::penalty_last,
     .low = -1,
     .high = kPenaltyLastMax,
     .minus_one_is_most = true,
     .off = 0,
     .label = "Penalties look back (tokens)",
     .text =
         "How many of the last tokens, of prompt and answer, the repeat, presence and frequency penalties consider"},
    {.name = "repetition_penalty",
     .alias = "repeat_penalty",
     .llama_name = "repeat_penalty",
     .recommended = "penalty_repeat",
     .flags = "--repeat-penalty",
     .member = &SamplingParams::repetition_penalty,
     .high = 10,
     .above_low = true,
     .off = 1,
     .label = "Repeat penalty",
     .text = "Above 1, discourages tokens that have already occurred"},
    {.name = "presence_penalty",
     .flags = "--presence-penalty",
     .member = &SamplingParams::presence_penalty,
     .low = -2,
     .high = 2,
     .off = 0,
     .label = "Presence penalty",
     .text = "Subtracted from the logit of each token that has occurred"},
    {.name = "frequency_penalty",
     .flags = "--frequency-penalty",
     .member = &SamplingParams::frequency_penalty,
     .low = -2,
     .high = 2,
     .off = 0,
     .label = "Frequency penalty",
     .text = "Subtracted from the logit of a token for each time it has occurred"},
    {.name = "min_keep",
     .flags = "--min-keep",
     .member = &SamplingParams::min_keep,
     .high = kMost,
     .off = 0,
     .label = "Tokens kept at least",
     .text = "Minimum number of tokens that typical p, top p, min p and XTC keep"},
    {.name = "top_n_sigma",
     .flags = "--top-nsigma,--top-n-sigma",
     .member = &SamplingParams::top_n_sigma,
     .low = SamplingParameter::kNoLow,
     .high = 1'000,
     .off = 0,
     .label = "Top n sigma",
     .text = "Keeps the logits within this many standard deviations of the largest"},
    {.name = "xtc_probability",
     .recommended = "xtc_probability",
     .flags = "--xtc-probability",
     .member = &SamplingParams::xtc_probability,
     .off = 0,
     .label = "XTC probability",
     .text = "XTC: how often the top choices are dropped"},
    {.name = "xtc_threshold",
     .recommended = "xtc_threshold",
     .flags = "--xtc-threshold",
     .member = &SamplingParams::xtc_threshold,
     .high = kMost,
     .off = 1,
     .label = "XTC threshold",
     .text = "XTC: minimum probability of a top choice; above 0.5, none is dropped"},
    {.name = "dynatemp_range",
     .flags = "--dynatemp-range",
     .member = &SamplingParams::dynatemp_range,
     .high = kTemperatureMax,
     .off = 0,
     .label = "Dynatemp range",
     .text = "Dynamic temperature: how far it may move away from the given temperature, depending on the entropy"},
    {.name = "dynatemp_exponent",
     .flags = "--dynatemp-exp",
     .member = &SamplingParams::dynatemp_exponent,
     .high = 100,
     .label = "Dynatemp exponent",
     .text = "Dynamic temperature: exponent of the entropy"},
    {.name = "dry_multiplier",
     .flags = "--dry-multiplier",
     .member = &DryParams::multiplier,
     .high = 1'000,
     .off = 0,
     .label = "DRY multiplier",
     .text = "DRY: penalty for a token that would extend a repetition"},
    {.name = "dry_base",
     .flags = "--dry-base",
     .member = &DryParams::base,
     .low = 1,
     .high = 100,
     .under_low = SamplingParameter::UnderLow{.from = 0},  // as llama.cpp has it
     .label = "DRY base",
     .text =
         "DRY: factor by which each further token of the repetition raises the penalty; below 1, the default is used"},
    {.name = "dry_allowed_length",
     .flags = "--dry-allowed-length",
     .member = &DryParams::allowed_length,
     .high = kMost,
     .label = "DRY allowed length",
     .text = "DRY: repetitions of up to this many tokens are not penalised"},
    {.name = "dry_penalty_last_n",
     .flags = "--dry-penalty-last-n",
     .member = &DryParams::last,
     .low = -1,
     .high = kPenaltyLastMax,
     .minus_one_is_most = true,
     .off = 0,
     .label = "DRY looks back (tokens)",
     .text = "DRY: how many of the last tokens, of prompt and answer, are searched for repetitions"},
    {.name = "adaptive_target",
     .flags = "--adaptive-target",
     .member = &SamplingParams::adaptive_target,
     .low = SamplingParameter::kNoLow,
     .off = -1,
     .label = "Adaptive p target",
     .text = "Adaptive-p: average probability that sampled tokens should have"},
    {.name = "adaptive_decay",
     .flags = "--adaptive-decay",
     .member = &SamplingParams::adaptive_decay,
     .high = 0.99,
     .label = "Adaptive p decay",
     .text =
         "Adaptive-p: weight of earlier tokens in that average, which covers about the last 1 / (1 - decay) tokens"},
    {.name = "mirostat",
     .recommended = "mirostat",
     .flags = "--mirostat",
     .member = &SamplingParams::mirostat,
     .high = 2,
     .off = 0,
     .label = "Mirostat version",
     .text = "Version of Mirostat, which replaces all filters and aims at a constant surprise"},
    {.name = "mirostat_tau",
     .recommended = "mirostat_tau",
     .flags = "--mirostat-ent",
     .member = &SamplingParams::mirostat_tau,
     .high = 100,
     .label = "Mirostat tau",
     .text = "Mirostat: target surprise, in bits"},
    {.name = "mirostat_eta",
     .recommended = "mirostat_eta",
     .flags = "--mirostat-lr",
     .member = &SamplingParams::mirostat_eta,
     .label = "Mirostat eta",
     .text = "Mirostat: learning rate"},
};

// The number that a row is about.
template <class Sampling, class T>
auto& number_of(Sampling& sampling, T SamplingParams::* member) {
  return sampling.*member;
}
template <class Sampling, class T>
auto& number_of(Sampling& sampling, T DryParams::* member) {
  return sampling.dry.*member;
}

}  // namespace

std::span<const SamplingParameter> sampling_parameters() { return kSamplingParameters; }

bool SamplingParameter::whole() const {
  return std::holds_alternative<int32_t SamplingParams::*>(member) ||
         std::holds_alternative<int32_t DryParams::*>(member);
}

double SamplingParameter::get(const SamplingParams& sampling) const {
  return std::visit([&](auto at) { return static_cast<double>(number_of(sampling, at)); }, member);
}

void SamplingParameter::set(SamplingParams& sampling, double value) const {
  std::visit(
      [&](auto at) {
        auto& number = number_of(sampling, at);
        number = static_cast<std::remove_reference_t<decltype(number)>>(value);
      },
      member);
}

std::string SamplingParameter::value_text(double value) const {
  return whole() ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

std::string SamplingParameter::range_text() const {
  if (minus_one_is_most) return fmt::format("from 0 to {}, or -1 for the maximum", high);
  if (above_low) return fmt::format("above {} and at most {}", low, high);
  if (low == kNoLow) return fmt::format("at most {}", high);
  if (high == kNoHigh)
    return low_means.empty() ? fmt::format("{} or more", low) : fmt::format("{} ({}) or more", low, low_means);
  if (whole() && high - low == 2) return fmt::format("{}, {} or {}", low, low + 1, high);
  return fmt::format("from {} to {}", low, high);
}

std::string SamplingParameter::off_text() const {
  if (!off) return {};
  return low == kNoLow ? fmt::format("{} or less", *off) : value_text(*off);
}

bool SamplingParameter::contains(double value) const {
  if (whole()) return value >= low && value <= high && std::trunc(value) == value;
  // The sampler has floats: the float of 0.99, which is a little more, is within 0.99.
  const auto number = static_cast<float>(value);
  return (above_low ? number > static_cast<float>(low) : number >= static_cast<float>(low)) &&
         number <= static_cast<float>(high);
}

bool SamplingParameter::takes(double value) const {
  return contains(value) || (under_low && value >= under_low->from && value < low);
}

std::optional<double> SamplingParameter::meaning(double value) const {
  if (!under_low || value >= low) return value;
  return under_low->is_low ? std::optional(low) : std::nullopt;
}

Result<void> SamplingParameter::check(const SamplingParams& sampling) const {
  const double value = get(sampling);
  if (contains(value)) return {};
  return fail_at(std::string(name), Code::kInvalidArgument, "{} is {}; it must be {}", name, value_text(value),
                 range_text());
}

std::optional<double> GivenParameters::get(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

void GivenParameters::set(const SamplingParameter& parameter, double value) {
  if (const auto meant = parameter.meaning(value)) {
    values_[parameter.name] = *meant;
  } else {
    values_.erase(parameter.name);
  }
}

GivenParameters GivenParameters::or_else(const GivenParameters& others) const {
  GivenParameters all = *this;
  all.values_.insert(others.values_.begin(), others.values_.end());
  if (!all.steps) all.steps = others.steps;
  return all;
}

void GivenParameters::apply(SamplingParams& sampling) const {
  for (const SamplingParameter& parameter : sampling_parameters())
    if (const auto value = get(parameter.name)) parameter.set(sampling, *value);
  if (steps) sampling.steps = *steps;
}

}  // namespace cairn::sampling
