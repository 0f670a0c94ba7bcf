/// What is sampled with where nobody says anything: neither a request nor a flag, a config file or the model's own
/// file. It is the same for every protocol and command, so that one seed gives one answer everywhere. (SamplingParams
/// itself begins with values that change nothing.)
#pragma once

#include "sampling/parameters.h"

namespace cairn::sampling {

/// The parameters whose default is another value than the sampler's own.
const GivenParameters& default_parameters();
/// The default of any parameter.
double default_of(const SamplingParameter& parameter);

}  // namespace cairn::sampling
