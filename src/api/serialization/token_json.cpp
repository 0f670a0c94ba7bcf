#include "api/serialization/token_json.h"

#include <nlohmann/json.hpp>

#include "base/text/utf8.h"

namespace cairn::api {

using nlohmann::ordered_json;

std::string token_text(const tokenizer::Tokenizer& tokenizer, TokenId id) {
  return utf8_replace_invalid(tokenizer.piece(id, true));
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

}  // namespace cairn::api
