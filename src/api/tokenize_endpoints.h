/// POST /tokenize, /detokenize and /apply-template: what a prompt becomes, without running it.
#pragma once

#include <string>
#include <vector>

#include "api/chat/request.h"
#include "api/exchange.h"
#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api {

/// {"content" or "prompt": text, "add_special": false, "parse_special": true, "with_pieces": false}
struct TokenizeRequest {
  std::string model;
  std::string text;
  tokenizer::EncodeOptions options;
  bool with_pieces = false;
};
/// {"tokens": [ids]}
struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};
Result<TokenizeRequest> parse_tokenize(RequestContext& context, const nlohmann::ordered_json& body);
Result<DetokenizeRequest> parse_detokenize(RequestContext& context, const nlohmann::ordered_json& body);
/// {"messages": [...], ...}
Result<ChatRequest> parse_apply_template(RequestContext& context, const nlohmann::ordered_json& body);

/// -> {"tokens", "count", "max_model_len"}.
Result<void> handle_tokenize(Exchange& exchange);
/// -> {"content", "prompt"}, twice the same text.
Result<void> handle_detokenize(Exchange& exchange);
/// -> {"prompt"}.
Result<void> handle_apply_template(Exchange& exchange);

}  // namespace cairn::api
