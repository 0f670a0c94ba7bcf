/// Token counts and times of a response, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/engine.h"

namespace cairn::api {

/// Adds one choice's; choices of one prompt share it, so that `counts_prompt` is true for one of them.
void add_usage(Usage& sum, const Usage& usage, bool counts_prompt);
nlohmann::ordered_json usage_json(const Usage& usage);

/// llama.cpp's names where it has one. The first token belongs to the prompt's time, so that one fewer is counted.
nlohmann::ordered_json timings_json(const Usage& usage, const Timings& timings);

}  // namespace cairn::api
