/// Which endpoint a request is for: the rows of all protocols, joined and matched.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/endpoint.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Every row; those without an {id} in their pattern come first.
std::span<const Endpoint> endpoints();

/// What stands in the path where the pattern has its {id}, "" if it has none; nullopt: the path is another one.
std::optional<std::string_view> id_in_path(std::string_view pattern, std::string_view path);

/// What the rows say of a request.
struct Route {
  const Endpoint* endpoint = nullptr;  ///< null: no row has both its path and its method
  std::string id{};                    ///< what stands at its {id}
  std::string methods{};               ///< of the rows with its path: "GET, DELETE"; empty: there are none
  Protocol protocol{};
  ErrorFormat errors{};
  AccessRule access = AccessRule::kAnyKey;
};
Route route_of(const net::HttpRequest& request);

/// "POST /v1/chat/completions, ...": the endpoints whose paths are most like this one, which is none of theirs; at most
/// kNearestEndpointsMax. Agents put such a text into a model's context, so it is short.
std::string nearest_endpoints(std::string_view path);
inline constexpr size_t kNearestEndpointsMax = 3;

}  // namespace cairn::api
