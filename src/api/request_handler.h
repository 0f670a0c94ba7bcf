/// The way of an HTTP request from its arrival to its endpoint.
#pragma once

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// The handler of the whole API, for the server's thread. `service` outlives the server.
net::HttpHandler make_handler(Service& service);
/// Reads bodies of those alone whom `service.access()` lets in, which is not null.
net::HttpBodyCheck make_body_check(Service& service);

}  // namespace cairn::api
