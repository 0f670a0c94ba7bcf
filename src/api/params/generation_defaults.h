/// What a server was started with for requests that say nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "gguf/reader.h"
#include "sampling/sampling_params.h"

namespace cairn::api {

/// Unset: as the protocol has it.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> penalty_last;  ///< as SamplingParams has it
  std::optional<int64_t> seed;          ///< unset, or -1: another one for each request
  std::optional<int32_t> predict;       ///< tokens of an answer, -1: to the end of the context

  /// Those of `others` for what is unset here.
  GenerationDefaults or_else(const GenerationDefaults& others) const {
    GenerationDefaults all = *this;
    const auto fill = [&](auto GenerationDefaults::* field) {
      if (!(all.*field)) all.*field = others.*field;
    };
    fill(&GenerationDefaults::temperature);
    fill(&GenerationDefaults::top_k);
    fill(&GenerationDefaults::top_p);
    fill(&GenerationDefaults::min_p);
    fill(&GenerationDefaults::repetition_penalty);
    fill(&GenerationDefaults::penalty_last);
    fill(&GenerationDefaults::seed);
    fill(&GenerationDefaults::predict);
    return all;
  }

  void apply(SamplingParams& sampling) const {
    sampling.temperature = temperature.value_or(sampling.temperature);
    sampling.top_k = top_k.value_or(sampling.top_k);
    sampling.top_p = top_p.value_or(sampling.top_p);
    sampling.min_p = min_p.value_or(sampling.min_p);
    sampling.repetition_penalty = repetition_penalty.value_or(sampling.repetition_penalty);
    sampling.penalty_last = penalty_last.value_or(sampling.penalty_last);
  }
};

/// What a file recommends for its model. The keys are those that llama.cpp's converter writes from a model's
/// generation_config.json (gguf-py, constants.py: "Recommended Sampler Parameters"): general.sampling.temp, top_k,
/// top_p, min_p, penalty_repeat and penalty_last_n. Values out of their range, or of another type, are left out; so
/// are the keys of XTC, Mirostat and the order of samplers.
GenerationDefaults recommended_by(const gguf::Metadata& metadata);

}  // namespace cairn::api
