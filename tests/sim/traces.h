/// Random traces: the options of an engine and its requests, from a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/simulation.h"

namespace cairn::sim {

struct Trace {
  SimulationOptions options;
  std::vector<Planned> planned;
};

Trace random_trace(const tokenizer::Tokenizer& tokenizer, uint64_t seed);

/// Random tokens from a seed, none of them special.
std::vector<TokenId> random_prompt(int32_t tokens, uint64_t seed);
engine::GenerateRequest request_of(std::vector<TokenId> prompt, int32_t max_tokens,
                                   engine::Priority priority = engine::Priority::kInteractive);

}  // namespace cairn::sim
