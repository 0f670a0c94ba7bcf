/// Which request goes where.
#pragma once

#include "api/service.h"
#include "net/http_server.h"

namespace cairn::api {

/// The handler of the whole API. `service` outlives the server. Thread: the server's.
net::HttpHandler make_handler(Service& service);

}  // namespace cairn::api
