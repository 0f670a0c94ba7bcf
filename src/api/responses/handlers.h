/// /v1/responses and what is below it.
#pragma once

#include <memory>
#include <string_view>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::responses {

inline constexpr std::string_view kResponsesPrefix = "/v1/responses/";

/// POST /v1/responses. A worker's, as the next two and the last.
void handle_create(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
/// POST /v1/responses/input_tokens.
void handle_input_tokens(Service& service, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response);
/// POST /v1/responses/compact.
void handle_compact(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
/// What is below /v1/responses/, if it is about a response that is not finished; else false. Thread: the server's.
bool handle_running(Service& service, const net::HttpRequest& request, net::HttpResponse& response);
/// GET and DELETE /v1/responses/ID, GET /v1/responses/ID/input_items, POST /v1/responses/ID/cancel, of a response that
/// is finished.
void handle_stored(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::responses
