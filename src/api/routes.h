/// Which request goes where.
#pragma once

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// The handler of the whole API, for the server's thread. `service` outlives the server.
net::HttpHandler make_handler(Service& service);

}  // namespace cairn::api
