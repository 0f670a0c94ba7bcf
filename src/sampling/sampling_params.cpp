#include "sampling/sampling_params.h"

#include <algorithm>

namespace cairn::sampling {
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

// Adds a step, if there is one; `shown` is what names it.
Result<void> add_step(std::optional<SamplerStep> step, std::string_view shown, std::vector<SamplerStep>& steps) {
  if (!step) return fail(Code::kInvalidArgument, "{}", no_sampler_step(fmt::format("\"{}\"", shown)));
  if (steps.size() >= kSamplerStepsMax)
    return fail(Code::kInvalidArgument, "may have at most {} steps", kSamplerStepsMax);
  steps.push_back(*step);
  return {};
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

Result<std::vector<SamplerStep>> sampler_steps_of_names(std::string_view names) {
  std::vector<SamplerStep> steps;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(';'));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    CAIRN_TRY_VOID(add_step(sampler_step_named(name), name, steps));
  }
  return steps;
}

Result<std::vector<SamplerStep>> sampler_steps_of_letters(std::string_view letters) {
  std::vector<SamplerStep> steps;
  for (size_t i = 0; i < letters.size(); ++i)
    CAIRN_TRY_VOID(add_step(sampler_step_of_letter(letters[i]), letters.substr(i, 1), steps));
  return steps;
}

std::string no_sampler_step(std::string_view shown) {
  std::string names;
  for (size_t i = 0; i < kStepLetters.size(); ++i)
    names += fmt::format("{}, ", sampler_step_name(static_cast<SamplerStep>(i)));
  return fmt::format("has no step {}; there are {}or letters of \"{}\"", shown, names, kStepLetters);
}

}  // namespace cairn::sampling
