/// Tokens and their log-probabilities, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api {

/// A token's text as clients show it: what is part of a character only is U+FFFD.
std::string token_text(const tokenizer::Tokenizer& tokenizer, TokenId id);
/// Their numbers.
nlohmann::ordered_json ids_json(std::span<const TokenId> tokens);
/// A token's bytes, as an array of numbers.
nlohmann::ordered_json token_bytes_json(const tokenizer::Tokenizer& tokenizer, TokenId id);
/// {"token", "logprob", "bytes"}
nlohmann::ordered_json logprob_json(const tokenizer::Tokenizer& tokenizer, TokenId id, float logprob);
/// The same of a sampled token, with "top_logprobs", those of the most likely tokens in its place.
nlohmann::ordered_json sampled_logprob_json(const tokenizer::Tokenizer& tokenizer, const engine::TokenEvent& event);

/// vLLM's entry of a list prompt_logprobs: null for the first token, else {ID: {"logprob", "rank", "decoded_token"}} of
/// the prompt's own token and of the most likely ones in its place.
nlohmann::ordered_json prompt_logprob_json(const tokenizer::Tokenizer& tokenizer, const engine::PromptScore& score);

}  // namespace cairn::api
