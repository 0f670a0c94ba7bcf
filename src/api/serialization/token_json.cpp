#include "api/serialization/token_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/text/utf8.h"

namespace cairn::api {

using nlohmann::ordered_json;

std::string token_text(const tokenizer::Tokenizer& tokenizer, TokenId id) {
  return utf8_replace_invalid(tokenizer.piece(id, true));
}

ordered_json ids_json(std::span<const TokenId> tokens) {
  ordered_json ids = ordered_json::array();
  for (const TokenId token : tokens) ids.push_back(index(token));
  return ids;
}

ordered_json token_bytes_json(const tokenizer::Tokenizer& tokenizer, TokenId id) {
  ordered_json bytes = ordered_json::array();
  for (const char c : tokenizer.piece(id, true)) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

ordered_json logprob_json(const tokenizer::Tokenizer& tokenizer, TokenId id, float logprob) {
  return {{"token", token_text(tokenizer, id)}, {"logprob", logprob}, {"bytes", token_bytes_json(tokenizer, id)}};
}

ordered_json sampled_logprob_json(const tokenizer::Tokenizer& tokenizer, const engine::TokenEvent& event) {
  ordered_json entry = logprob_json(tokenizer, event.token, event.logprob);
  entry["top_logprobs"] = ordered_json::array();
  for (const auto& top : event.top) entry["top_logprobs"].push_back(logprob_json(tokenizer, top.token, top.logprob));
  return entry;
}

ordered_json prompt_logprob_json(const tokenizer::Tokenizer& tokenizer, const engine::PromptScore& score) {
  if (score.rank == 0) return nullptr;
  const auto entry = [&](TokenId id, float logprob, int32_t rank) -> ordered_json {
    return {{"logprob", logprob}, {"rank", rank}, {"decoded_token", token_text(tokenizer, id)}};
  };
  ordered_json entries = {{std::to_string(index(score.token)), entry(score.token, score.logprob, score.rank)}};
  int32_t rank = 0;
  for (const auto& top : score.top)
    entries.emplace(std::to_string(index(top.token)), entry(top.token, top.logprob, ++rank));
  return entries;
}

}  // namespace cairn::api
