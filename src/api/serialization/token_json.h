/// Tokens and their log-probabilities, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api {

/// A token's text as clients show it: what is part of a character only is U+FFFD.
std::string token_text(const tokenizer::Tokenizer& tokenizer, TokenId id);
/// A token's bytes, as an array of numbers.
nlohmann::ordered_json token_bytes_json(const tokenizer::Tokenizer& tokenizer, TokenId id);
/// {"token", "logprob", "bytes"}
nlohmann::ordered_json logprob_json(const tokenizer::Tokenizer& tokenizer, TokenId id, float logprob);
/// The same of a sampled token, with "top_logprobs", those of the most likely tokens in its place.
nlohmann::ordered_json sampled_logprob_json(const tokenizer::Tokenizer& tokenizer, const engine::TokenEvent& event);

}  // namespace cairn::api
