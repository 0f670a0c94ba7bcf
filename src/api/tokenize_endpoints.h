/// POST /tokenize, /detokenize and /apply-template: what a prompt becomes, without running it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/chat/request.h"
#include "api/service.h"
#include "base/ids.h"
#include "net/http/http_server.h"
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
Result<TokenizeRequest> parse_tokenize(RequestContext& context, const nlohmann::ordered_json& body);
Result<DetokenizeRequest> parse_detokenize(RequestContext& context, const nlohmann::ordered_json& body);
/// {"messages": [...], ...}
Result<ChatRequest> parse_apply_template(RequestContext& context, const nlohmann::ordered_json& body);

/// -> {"tokens", "count", "max_model_len"}. A worker's, as the others.
void handle_tokenize(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response);
/// -> {"content"}.
void handle_detokenize(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response);
/// -> {"prompt"}.
void handle_apply_template(Service& service, RequestContext& context, const net::HttpRequest& request,
                           std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api
