/// POST /v1/chat/completions and POST /v1/completions.
#pragma once

#include <memory>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::openai {

/// Both answer through `response`, now or later. Thread: the server's.
void handle_chat(Service& service, RequestContext& context, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response);
void handle_completion(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response);

/// POST /v1/chat/completions/input_tokens: how many tokens the prompt would have. A worker's.
void handle_input_tokens(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response);

/// GET /v1/models/ID, or GET /v1/models where the path has no id.
void handle_models(const Service& service, const RequestContext& context, net::HttpResponse& response);

}  // namespace cairn::api::openai
