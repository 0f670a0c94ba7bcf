#include "api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "api/anthropic/models.h"
#include "base/text/edit_distance.h"

namespace cairn::api {
namespace {

constexpr std::string_view kIdPart = "{id}", kRestPart = "{id...}";

bool has_id(const Endpoint& endpoint) { return endpoint.pattern.contains('{'); }

std::vector<Endpoint> join() {
  std::vector<Endpoint> all;
  for (const auto list : {openai::endpoints(), responses::endpoints(), anthropic::endpoints(), model_endpoints(),
                          ollama::endpoints(), llama_cpp::endpoints(), monitoring_endpoints()})
    all.insert(all.end(), list.begin(), list.end());
  std::ranges::stable_partition(all, [](const Endpoint& endpoint) { return !has_id(endpoint); });
  return all;
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// What a path that no row has looks like, by how it begins: whose client asks for it.
Route unknown_route(std::string_view path) {
  if (is_below(path, "/api/v0") || is_below(path, "/api/v1"))
    return {.protocol = Protocol::kLmStudio, .errors = ErrorFormat::kOpenAi};
  if (path.starts_with("/api/")) return {.protocol = Protocol::kOllama, .errors = ErrorFormat::kOllama};
  if (is_below(path, "/v1/messages")) return {.protocol = Protocol::kAnthropic, .errors = ErrorFormat::kAnthropic};
  const Protocol protocol = is_below(path, "/v1/responses") ? Protocol::kResponses : Protocol::kOpenAi;
  return {.protocol = protocol, .errors = path.starts_with("/v1/") ? ErrorFormat::kOpenAi : ErrorFormat::kLlamaCpp};
}

Route find_route(const net::HttpRequest& request) {
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const Endpoint* first = nullptr;  // of those with the request's path
  Route route;
  for (const Endpoint& endpoint : endpoints()) {
    const auto id = id_in_path(endpoint.pattern, request.path);
    if (!id || (first != nullptr && first->pattern != endpoint.pattern)) continue;
    if (first == nullptr) {
      first = &endpoint;
      route = {
          .id = std::string(*id), .protocol = endpoint.protocol, .errors = endpoint.errors, .access = endpoint.access};
    }
    route.access = std::min(route.access, endpoint.access);
    route.methods += fmt::format("{}{}", route.methods.empty() ? "" : ", ", endpoint.method);
    if (endpoint.method == method) route.endpoint = &endpoint;
  }
  if (first == nullptr) return unknown_route(request.path);
  // A method that no row has is nobody's to ask without a key, nor one's where all others want one that manages.
  route.access = route.endpoint != nullptr ? route.endpoint->access : std::max(route.access, AccessRule::kAnyKey);
  return route;
}

}  // namespace

std::span<const Endpoint> endpoints() {
  static const std::vector<Endpoint> kAll = join();
  return kAll;
}

std::optional<std::string_view> id_in_path(std::string_view pattern, std::string_view path) {
  const size_t begin = pattern.find('{');
  if (begin == std::string_view::npos) return pattern == path ? std::optional(std::string_view()) : std::nullopt;
  const bool rest = pattern.ends_with(kRestPart);
  const std::string_view behind = pattern.substr(begin + (rest ? kRestPart : kIdPart).size());
  if (!path.starts_with(pattern.substr(0, begin)) || path.size() <= begin + behind.size() || !path.ends_with(behind))
    return std::nullopt;
  const std::string_view id = path.substr(begin, path.size() - behind.size() - begin);
  return rest || !id.contains('/') ? std::optional(id) : std::nullopt;
}

Route route_of(const net::HttpRequest& request) {
  Route route = find_route(request);
  if (route.errors != ErrorFormat::kOllama && anthropic::speaks_anthropic(request))
    route.errors = ErrorFormat::kAnthropic;
  return route;
}

std::string nearest_endpoints(std::string_view path) {
  constexpr size_t kCompared = 100;  // bytes of the path
  std::vector<std::pair<size_t, const Endpoint*>> found;
  for (const Endpoint& endpoint : endpoints())
    if (!has_id(endpoint)) found.emplace_back(edit_distance(path.substr(0, kCompared), endpoint.pattern), &endpoint);
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  found.resize(std::min(found.size(), kNearestEndpointsMax));
  std::string list;
  for (const auto& [distance, endpoint] : found)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", endpoint->method, endpoint->pattern);
  return list;
}

}  // namespace cairn::api
