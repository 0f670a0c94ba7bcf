#include "sampling/default_parameters.h"

#include <algorithm>
#include <string_view>

namespace cairn::sampling {
namespace {

struct Default {
  std::string_view name;
  double value;
};

// llama.cpp's. Small models lose themselves at temperature 1 with nothing cut.
constexpr Default kDefaults[] = {{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.05}};

GivenParameters make_defaults() {
  GivenParameters defaults;
  for (const SamplingParameter& parameter : sampling_parameters()) {
    const auto* const found = std::ranges::find(kDefaults, parameter.name, &Default::name);
    if (found != std::end(kDefaults)) defaults.set(parameter, found->value);
  }
  return defaults;
}

}  // namespace

const GivenParameters& default_parameters() {
  static const GivenParameters defaults = make_defaults();
  return defaults;
}

double default_of(const SamplingParameter& parameter) {
  return default_parameters().get(parameter.name).value_or(parameter.get(SamplingParams()));
}

}  // namespace cairn::sampling
