/// What a server was started with for requests that say nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "sampling/sampling_params.h"

namespace cairn::api {

/// Unset: as the protocol has it.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int64_t> seed;     ///< unset, or -1: another one for each request
  std::optional<int32_t> predict;  ///< tokens of an answer, -1: to the end of the context

  void apply(SamplingParams& sampling) const {
    sampling.temperature = temperature.value_or(sampling.temperature);
    sampling.top_k = top_k.value_or(sampling.top_k);
    sampling.top_p = top_p.value_or(sampling.top_p);
    sampling.min_p = min_p.value_or(sampling.min_p);
    sampling.repetition_penalty = repetition_penalty.value_or(sampling.repetition_penalty);
  }
};

}  // namespace cairn::api
