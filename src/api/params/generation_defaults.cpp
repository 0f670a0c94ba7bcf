#include "api/params/generation_defaults.h"

#include <string>

namespace cairn::api {
namespace {

std::optional<double> recommended_value(const gguf::Metadata& metadata, const sampling::SamplingParameter& parameter) {
  const std::string key = "general.sampling." + std::string(parameter.recommended);
  std::optional<double> value;
  if (parameter.whole()) {
    if (const auto number = metadata.integer(key)) value = static_cast<double>(*number);
  } else if (const auto number = metadata.number(key)) {
    value = *number;
  }
  return value && parameter.takes(*value) ? value : std::nullopt;
}

}  // namespace

sampling::GivenParameters recommended_by(const gguf::Metadata& metadata) {
  sampling::GivenParameters recommended;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    if (parameter.recommended.empty()) continue;
    if (const auto value = recommended_value(metadata, parameter)) recommended.set(parameter, *value);
  }
  if (const auto names = metadata.string("general.sampling.sequence")) {
    if (auto steps = sampling::sampler_steps_of_names(*names)) recommended.steps = std::move(*steps);
  }
  return recommended;
}

}  // namespace cairn::api
