#include "api/http/tenant.h"

#include <algorithm>
#include <string_view>

#include "api/access/credentials.h"
#include "api/access/principal.h"
#include "base/hash.h"

namespace cairn::api {
namespace {

/// Who shares fairly with others.
std::string sharer_of(const net::HttpRequest& request) {
  const std::string& name = principal_of(request).name();
  return name.empty() ? client_of(request) : "key " + name;
}

}  // namespace

std::string tenant_of(const net::HttpRequest& request) {
  if (const std::string& name = principal_of(request).name(); !name.empty()) return name;
  const auto keys = presented_keys(request);
  const auto* first = std::ranges::find_if(keys, [](std::string_view key) { return !key.empty(); });
  return first == keys.end() ? std::string() : fmt::format("{:016x}", hash64(*first));
}

void name_owner(const net::HttpRequest& http, engine::GenerateRequest& request) {
  const Principal& principal = principal_of(http);
  request.client = sharer_of(http);
  request.tenant = tenant_of(http);
  request.usage_listener = principal.meter();
  if (principal.only_batch()) request.priority = engine::Priority::kBatch;
  if (principal.no_disk()) request.keep_on_disk = false;
}

void set_tenant(const net::HttpRequest& http, engine::GenerateRequest& request) {
  name_owner(http, request);
  if (!request.tenant.empty()) request.salt = hash64(request.tenant, request.salt) | 1;
}

engine::Party party_of(const net::HttpRequest& request) {
  return engine::party_of(sharer_of(request), tenant_of(request));
}

}  // namespace cairn::api
