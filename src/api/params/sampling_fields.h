/// The sampling parameters of a request, in the names of OpenAI, llama.cpp, vLLM and Ollama.
#pragma once

#include "api/params/request_fields.h"
#include "engine/engine.h"

namespace cairn::api {

/// What docs/sampling.md lists, `logit_bias` and `seed`. What the body leaves out stays as it is in `generate`, but for
/// the seed: without one, and with llama.cpp's "any" (-1, or its 32 bits), it is drawn at random.
void read_sampling(RequestFields& fields, GenerateRequest& generate);
/// `n_probs` and `post_sampling_probs`: llama.cpp's log-probabilities.
void read_probabilities(RequestFields& fields, SamplingParams& sampling);

/// A random seed.
uint64_t random_seed();

}  // namespace cairn::api
