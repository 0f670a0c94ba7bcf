/// The sampling parameters of a request, in the names of OpenAI, llama.cpp, vLLM and Ollama.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "api/params/request_fields.h"
#include "engine/engine.h"
#include "sampling/parameters.h"

namespace cairn::api {

/// What docs/sampling.md lists, `logit_bias` and `seed`. What the body leaves out stays as it is in `generate`, but for
/// the seed: without one, and with llama.cpp's "any" (-1, or its 32 bits), it is drawn at random.
void read_sampling(RequestFields& fields, engine::GenerateRequest& generate);
/// The same but for `seed`, and without the defaults. What the body leaves out stays as it is.
void read_given_sampling(RequestFields& fields, engine::GenerateRequest& generate);
/// The names of a parameter in a request: its own, its alias, and those of other servers.
std::vector<std::string_view> names_of(const sampling::SamplingParameter& parameter);
/// `seed`, which KoboldCpp calls `sampler_seed`, or `preset` where the body has none. Unset, -1, or as 32 bits: a
/// random one.
void read_seed(RequestFields& fields, std::optional<int64_t> preset, sampling::SamplingParams& sampling);
/// `n_probs` and `post_sampling_probs`: llama.cpp's log-probabilities.
void read_probabilities(RequestFields& fields, sampling::SamplingParams& sampling);

/// A random seed.
uint64_t random_seed();

}  // namespace cairn::api
