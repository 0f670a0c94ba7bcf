/// What a request shows of who sends it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "net/http/http_server.h"

namespace cairn::api {

/// The bearer token of the Authorization header, and what the X-Api-Key (Anthropic's clients) and Api-Key headers have,
/// in this order; empty where there is none.
std::array<std::string_view, 3> presented_keys(const net::HttpRequest& request);
/// The address that the request came from, without its port; of IPv6 the network, as one site has all addresses of a
/// /64 (RFC 6177). For the engine it is the client where nobody is asked for a key, since anyone can make up keys; else
/// the client is the key.
std::string client_of(const net::HttpRequest& request);

}  // namespace cairn::api
