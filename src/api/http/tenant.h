/// Who a request comes from, for what the engine shares fairly, limits and shows to its owner alone.
#pragma once

#include <string>

#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// The name of the key that let the request in. Where no key is needed: a hash, in hexadecimal, of the first key that
/// it presents; empty without one. The key itself is kept nowhere.
std::string tenant_of(const net::HttpRequest& request);
/// Fills what the engine is told of whose request it is: tenant and client, who counts its tokens, and the priority of
/// a key whose requests are all batch.
void name_owner(const net::HttpRequest& http, engine::GenerateRequest& request);
/// The same, and parts the tenant's prefix cache from others': who has another key does not learn from the time an
/// answer takes what others asked.
void set_tenant(const net::HttpRequest& http, engine::GenerateRequest& request);
/// Whom the engine counts the request for.
engine::Party party_of(const net::HttpRequest& request);

}  // namespace cairn::api
