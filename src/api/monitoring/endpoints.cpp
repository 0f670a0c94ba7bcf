// The endpoints by which a server is watched: whether it is there, what it does, and the page's own.
#include "api/endpoint.h"
#include "api/monitoring/metrics.h"
#include "api/monitoring/power.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "api/stats.h"

namespace cairn::api {
namespace {

Result<void> send_unavailable(Exchange& exchange, const nlohmann::ordered_json& body) {
  exchange.response->send(503, "application/json", dump(body), {{"Retry-After", "1"}});
  return {};
}

/// Clients look at GET / whether a server is running. Browsers have had the page (web/page.h).
Result<void> handle_root(Exchange& exchange) {
  exchange.response->send(200, "text/plain; charset=utf-8", "Cairn is running");
  return {};
}

/// While it loads, as llama.cpp's server has it, for whoever waits for this one to be ready. Who chooses among servers
/// sees by `model_loaded` which of them would have to load a model first.
Result<void> handle_health(Exchange& exchange) {
  const bool has_model = !exchange.service.registry().loading();
  if (exchange.service.stopping())
    return send_unavailable(exchange, {{"status", "stopping"}, {"model_loaded", has_model}});
  if (exchange.service.loading()) {
    return send_unavailable(exchange,
                            {{"error", {{"code", 503}, {"message", "Loading model"}, {"type", "unavailable_error"}}},
                             {"model_loaded", has_model}});
  }
  return send_json(exchange, {{"status", "ok"}, {"model_loaded", has_model}});
}

/// Whether requests are answered: for load balancers, which ask no further once the server begins to stop.
Result<void> handle_ready(Exchange& exchange) {
  if (exchange.service.stopping()) return send_unavailable(exchange, {{"status", "stopping"}});
  if (exchange.service.loading()) return send_unavailable(exchange, {{"status", "loading"}});
  return send_json(exchange, {{"status", "ready"}});
}

Result<void> handle_requests(Exchange& exchange) { return exchange.service.monitor().handle_requests(exchange); }
Result<void> handle_metrics_stream(Exchange& exchange) { return exchange.service.monitor().handle_stream(exchange); }
Result<void> handle_cancel_request(Exchange& exchange) { return exchange.service.monitor().handle_cancel(exchange); }

}  // namespace

std::span<const Endpoint> monitoring_endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kCairn;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      Endpoint{"GET", "/", kProtocol, kLlamaCpp, kNeedsStart, kOpen, kServer, handle_root}.quiet(),
      Endpoint{"GET", "/health", kProtocol, kLlamaCpp, kNeedsNothing, kOpen, kServer, handle_health}.quiet(),
      Endpoint{"GET", "/v1/health", kProtocol, kOpenAi, kNeedsNothing, kOpen, kServer, handle_health}.quiet(),
      Endpoint{"GET", "/ready", kProtocol, kLlamaCpp, kNeedsNothing, kOpen, kServer, handle_ready}.quiet(),
      Endpoint{"GET", "/metrics", kProtocol, kLlamaCpp, kNeedsNothing, kAnyKey, kServer, handle_prometheus}.quiet(),
      Endpoint{"GET", "/stats", kProtocol, kLlamaCpp, kNeedsStart, kAnyKey, kServer, handle_stats}.quiet(),
      Endpoint{"GET", "/v1/metrics", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_metrics}.quiet(),
      Endpoint{"GET", "/v1/metrics/stream", Protocol::kOpenAi, kOpenAi, kNeedsStart, kAnyKey, kServer,
               handle_metrics_stream}
          .quiet(),
      Endpoint{"GET", "/v1/requests", Protocol::kOpenAi, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_requests}
          .quiet(),
      {"POST", "/v1/requests/{id}/cancel", Protocol::kOpenAi, kOpenAi, kNeedsStart, kAnyKey, kServer,
       handle_cancel_request},
      Endpoint{"GET", "/v1/power", Protocol::kOpenAi, kOpenAi, kNeedsNothing, kAnyKey, kServer, handle_power}.quiet(),
      {"POST", "/v1/power", Protocol::kOpenAi, kOpenAi, kNeedsNothing, kManagingKey, kWorker, handle_set_power},
      {"GET", "/debug/prefix", Protocol::kOpenAi, kLlamaCpp, kNeedsStart, kAnyKey, kServer, handle_prefix},
  };
  return kRows;
}

}  // namespace cairn::api
