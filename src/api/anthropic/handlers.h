/// POST /v1/messages, POST /v1/messages/count_tokens, and GET /v1/models and /v1/models/ID in Anthropic's words.
///
/// Source: Anthropic API reference, "Messages", "List Models" and "Get a Model".
#pragma once

#include <memory>
#include <string_view>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::anthropic {

/// Both answer through `response`, now or later. Thread: the server's.
void handle_messages(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response);
void handle_count_tokens(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response);

inline constexpr int kModelsMax = 1'000;  ///< of one page

/// Whether the request is of a client of Anthropic's, which shares these paths with OpenAI's: they name their version.
bool speaks_anthropic(const net::HttpRequest& request);

/// One model, or all of them where the path has no id.
void handle_models(const Service& service, const RequestContext& context, const net::HttpRequest& request,
                   net::HttpResponse& response);

}  // namespace cairn::api::anthropic
