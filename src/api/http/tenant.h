/// Who a request comes from, for what the engine shares fairly, limits and shows to its owner alone.
#pragma once

#include <string>

#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// A hash, in hexadecimal, of the bearer token in the Authorization header, or else of the X-Api-Key header; empty
/// without either. The token itself is kept nowhere.
std::string tenant_of(const net::HttpRequest& request);
/// The address that the request came from, without its port; of IPv6 the network, as one site has all addresses of a
/// /64 (RFC 6177).
std::string client_of(const net::HttpRequest& request);
/// Fills tenant and client.
void name_owner(const net::HttpRequest& http, GenerateRequest& request);
/// The same, and parts the tenant's prefix cache from others': who has another key does not learn from the time an
/// answer takes what others asked.
void set_tenant(const net::HttpRequest& http, GenerateRequest& request);
/// As the engine knows them.
Party party_of(const net::HttpRequest& request);

}  // namespace cairn::api
