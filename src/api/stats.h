/// What the server tells about itself: GET /stats, GET /v1/metrics and GET /debug/prefix?request=ID.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "loader/registry.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Sums over all models of the scope: {"active_requests", "waiting_requests", "total_requests", "cache_usage", ...}.
nlohmann::ordered_json server_stats(const Registry& registry, const ModelScope& scope);
/// The same of one model, as /v1/metrics has it.
nlohmann::ordered_json model_stats(const LoadedModel& model);
void send_stats(const Registry& registry, const ModelScope& scope, net::HttpResponse& response);
/// The same for every model: {"object": "list", "data": [{"model", ...}]}.
void send_metrics(const Registry& registry, const ModelScope& scope, net::HttpResponse& response);
/// Why the prompt of request ID was, or was not, found in the prefix cache. 404 for requests not among the last ones.
void send_prefix(const Registry& registry, const ModelScope& scope, const net::HttpRequest& request,
                 net::HttpResponse& response);

}  // namespace cairn::api
