/// POST /v1/messages and POST /v1/messages/count_tokens.
#pragma once

#include <memory>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::anthropic {

/// Both answer through `response`, now or later. Thread: the server's.
void handle_messages(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
void handle_count_tokens(Service& service, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::anthropic
