/// POST /tokenize, /detokenize and /apply-template: what a prompt becomes, without running it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/ids.h"
#include "net/http_server.h"
#include "prompt/chat_template.h"
#include "registry/registry.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api {

/// {"content" or "prompt": text, "add_special": false, "parse_special": true, "with_pieces": false}
struct TokenizeRequest {
  std::string model;
  std::string text;
  EncodeOptions options;
  bool with_pieces = false;
};
/// {"tokens": [ids]}
struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};
/// {"messages": [...], ...}
struct TemplateRequest {
  std::string model;
  ChatInput input;
};
Result<TokenizeRequest> parse_tokenize(const nlohmann::ordered_json& body);
Result<DetokenizeRequest> parse_detokenize(const nlohmann::ordered_json& body);
Result<TemplateRequest> parse_apply_template(const nlohmann::ordered_json& body);

/// -> {"tokens", "count", "max_model_len"}.
void handle_tokenize(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response);
/// -> {"content"}.
void handle_detokenize(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response);
/// -> {"prompt"}.
void handle_apply_template(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response);

}  // namespace cairn::api
