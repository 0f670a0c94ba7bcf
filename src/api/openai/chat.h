/// POST /v1/chat/completions and POST /v1/completions.
#pragma once

#include <memory>

#include "net/http_server.h"
#include "registry/registry.h"

namespace cairn::api::openai {

/// Both answer through `response`, now or later. Thread: the server's.
void handle_chat(const Registry& registry, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response);
void handle_completion(const Registry& registry, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response);

/// GET /v1/models and GET /v1/models/ID (`id` empty: all).
void handle_models(const Registry& registry, std::string_view id, net::HttpResponse& response);

}  // namespace cairn::api::openai
