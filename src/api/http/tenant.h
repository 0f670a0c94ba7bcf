/// Who a request comes from, for what the engine shares fairly, limits and shows to its owner alone.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// The bearer token of the Authorization header, and what the X-Api-Key (Anthropic's clients) and Api-Key headers have,
/// in this order; empty where there is none.
std::array<std::string_view, 3> presented_keys(const net::HttpRequest& request);
/// The name of the key that let the request in. Where no key is needed: a hash, in hexadecimal, of the first key that
/// it presents; empty without one. The key itself is kept nowhere.
std::string tenant_of(const net::HttpRequest& request);
/// The address that the request came from, without its port; of IPv6 the network, as one site has all addresses of a
/// /64 (RFC 6177). For the engine it is the client where nobody is asked for a key, since anyone can make up keys; else
/// the client is the key.
std::string client_of(const net::HttpRequest& request);
/// Fills what the engine is told of whose request it is: tenant and client, who counts its tokens, and the priority of
/// a key whose requests are all batch.
void name_owner(const net::HttpRequest& http, GenerateRequest& request);
/// The same, and parts the tenant's prefix cache from others': who has another key does not learn from the time an
/// answer takes what others asked.
void set_tenant(const net::HttpRequest& http, GenerateRequest& request);
/// As the engine knows them.
Party party_of(const net::HttpRequest& request);

}  // namespace cairn::api
