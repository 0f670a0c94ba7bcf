/// What a server was started with for requests that say nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "sampling/parameters.h"

namespace cairn::api {

/// Unset: as the protocol has it.
struct GenerationDefaults {
  sampling::GivenParameters sampling{};
  std::optional<int64_t> seed{};     ///< unset, or -1: another one for each request
  std::optional<int32_t> predict{};  ///< tokens of an answer, -1: to the end of the context
  std::vector<std::string> stop{};   ///< strings that end an answer; empty: unset

  /// These, and for what is unset here those of `others`.
  GenerationDefaults or_else(const GenerationDefaults& others) const {
    return {.sampling = sampling.or_else(others.sampling),
            .seed = seed ? seed : others.seed,
            .predict = predict ? predict : others.predict,
            .stop = stop.empty() ? others.stop : stop};
  }
};

/// What a file recommends for its model. The keys are those that llama.cpp's converter writes from a model's
/// generation_config.json (gguf-py, constants.py: "Recommended Sampler Parameters"): general.sampling.sequence, and
/// what the rows of parameters.h name. Values out of their range, or of another type, are left out.
sampling::GivenParameters recommended_by(const gguf::Metadata& metadata);

}  // namespace cairn::api
