/// /v1/responses and what is below it.
#pragma once

#include <memory>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::responses {

/// POST /v1/responses. A worker's, as the next two.
void handle_create(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response);
/// POST /v1/responses/input_tokens.
void handle_input_tokens(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response);
/// POST /v1/responses/compact.
void handle_compact(Service& service, RequestContext& context, const net::HttpRequest& request,
                    std::shared_ptr<net::HttpResponse> response);
/// GET /v1/responses/ID of a response that is being written and is to be stored; else false. Thread: the server's, as
/// that of the next two.
bool answer_running(Service& service, RequestContext& context, const net::HttpRequest& request,
                    net::HttpResponse& response);
/// DELETE /v1/responses/ID.
bool refuse_to_remove_running(Service& service, RequestContext& context, const net::HttpRequest& request,
                              net::HttpResponse& response);
/// POST /v1/responses/ID/cancel.
bool cancel_running(Service& service, RequestContext& context, const net::HttpRequest& request,
                    net::HttpResponse& response);
/// GET /v1/responses/ID of a response that is finished. A worker's, as the others.
void handle_retrieve(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response);
/// DELETE /v1/responses/ID.
void handle_remove(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response);
/// POST /v1/responses/ID/cancel: a response that is finished is answered as it is.
void handle_cancel(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response);
/// GET /v1/responses/ID/input_items.
void handle_input_items(Service& service, RequestContext& context, const net::HttpRequest& request,
                        std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::responses
