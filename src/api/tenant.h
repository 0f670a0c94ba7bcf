/// Who a request comes from, for the limits that the engine keeps per tenant.
#pragma once

#include <string>

#include "net/http_server.h"

namespace cairn::api {

/// A hash, in hexadecimal, of the bearer token in the Authorization header, or else of the X-Api-Key header; empty
/// without either. The token itself is kept nowhere.
std::string tenant_of(const net::HttpRequest& request);

}  // namespace cairn::api
