/// What the server tells about itself: GET /stats, GET /v1/metrics and GET /debug/prefix?request=ID.
#pragma once

#include "api/exchange.h"
#include "loader/registry.h"

namespace cairn::api {

/// Sums over all models of the scope: {"active_requests", "waiting_requests", "total_requests", "cache_usage", ...}.
nlohmann::ordered_json server_stats(const loader::Registry& registry, const loader::ModelScope& scope);
/// The same of one model, as /v1/metrics has it.
nlohmann::ordered_json model_stats(const loader::LoadedModel& model);
Result<void> handle_stats(Exchange& exchange);
/// The same for every model: {"object": "list", "data": [{"model", ...}]}.
Result<void> handle_metrics(Exchange& exchange);
/// Why the prompt of request ID was, or was not, found in the prefix cache. 404 for requests not among the last ones.
Result<void> handle_prefix(Exchange& exchange);

}  // namespace cairn::api
