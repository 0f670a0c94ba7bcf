/// Pieces that OpenAI's answers share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::openai {

/// One server-sent event without a name.
std::string event_text(const nlohmann::ordered_json& value);

int64_t unix_seconds_now();

/// A token's text as clients show it: what is part of a character only is U+FFFD.
std::string token_text(const Tokenizer& tokenizer, TokenId id);

/// A token's log-probability and those of the most likely: an entry of `logprobs`.
nlohmann::ordered_json logprob_json(const Tokenizer& tokenizer, const TokenEvent& event);

/// Adds one choice's; choices of one prompt share it, so that `counts_prompt` is true for one of them.
void add_usage(Usage& sum, const Usage& usage, bool counts_prompt);
nlohmann::ordered_json usage_json(const Usage& usage);

/// llama.cpp's names where it has one. The first token belongs to the prompt's time, so that one fewer is counted.
nlohmann::ordered_json timings_json(const Usage& usage, const Timings& timings);

}  // namespace cairn::api::openai
