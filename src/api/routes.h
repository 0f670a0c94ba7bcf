/// Which request goes where.
#pragma once

#include "net/http_server.h"
#include "registry/registry.h"

namespace cairn::api {

/// The handler of the whole API. `registry` outlives the server. Thread: the server's.
net::HttpHandler make_handler(const Registry& registry);

}  // namespace cairn::api
