// The endpoints by which a server is watched: whether it is there, what it does, and the page's own.
#include <nlohmann/json.hpp>

#include "api/endpoint.h"
#include "api/monitoring/metrics.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "api/stats.h"
#include "api/web/page.h"

namespace cairn::api {
namespace {

/// While it loads, as llama.cpp's server has it, for whoever waits for this one to be ready.
void handle_health(Service& service, RequestContext&, const net::HttpRequest&,
                   std::shared_ptr<net::HttpResponse> response) {
  const auto unavailable = [&](const nlohmann::ordered_json& body) {
    response->send(503, "application/json", dump(body), {{"Retry-After", "1"}});
  };
  if (service.stopping()) return unavailable({{"status", "stopping"}});
  if (service.loading())
    return unavailable({{"error", {{"code", 503}, {"message", "Loading model"}, {"type", "unavailable_error"}}}});
  send_json(*response, {{"status", "ok"}});
}

/// Whether requests are answered: for load balancers, which ask no further once the server begins to stop.
void handle_ready(Service& service, RequestContext&, const net::HttpRequest&,
                  std::shared_ptr<net::HttpResponse> response) {
  if (service.loading() || service.stopping()) {
    const char* state = service.stopping() ? "stopping" : "loading";
    return response->send(503, "application/json", dump({{"status", state}}), {{"Retry-After", "1"}});
  }
  send_json(*response, {{"status", "ready"}});
}

void handle_prometheus(Service& service, RequestContext& context, const net::HttpRequest&,
                       std::shared_ptr<net::HttpResponse> response) {
  send_prometheus(service, context.scope(), *response);
}

void handle_stats(Service& service, RequestContext& context, const net::HttpRequest&,
                  std::shared_ptr<net::HttpResponse> response) {
  send_stats(service.registry(), context.scope(), *response);
}

void handle_metrics(Service& service, RequestContext& context, const net::HttpRequest&,
                    std::shared_ptr<net::HttpResponse> response) {
  send_metrics(service.registry(), context.scope(), *response);
}

void handle_prefix(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  send_prefix(service.registry(), context.scope(), request, *response);
}

void handle_requests(Service& service, RequestContext&, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response) {
  service.monitor().handle_requests(request, *response);
}

void handle_metrics_stream(Service& service, RequestContext& context, const net::HttpRequest& request,
                           std::shared_ptr<net::HttpResponse> response) {
  service.monitor().handle_stream(request, context.scope(), std::move(response));
}

void handle_cancel_request(Service& service, RequestContext& context, const net::HttpRequest& request,
                           std::shared_ptr<net::HttpResponse> response) {
  service.monitor().handle_cancel(request, context.id(), *response);
}

}  // namespace

std::span<const Endpoint> monitoring_endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kCairn;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"GET", "/", kProtocol, kLlamaCpp, kNeedsStart, kOpen, kServer, web::handle_root},
      {"GET", "/health", kProtocol, kLlamaCpp, kNeedsNothing, kOpen, kServer, handle_health},
      {"GET", "/v1/health", kProtocol, kOpenAi, kNeedsNothing, kOpen, kServer, handle_health},
      {"GET", "/ready", kProtocol, kLlamaCpp, kNeedsNothing, kOpen, kServer, handle_ready},
      {"GET", "/metrics", kProtocol, kLlamaCpp, kNeedsNothing, kAnyKey, kServer, handle_prometheus},
      {"GET", "/stats", kProtocol, kLlamaCpp, kNeedsStart, kAnyKey, kServer, handle_stats},
      {"GET", "/v1/metrics", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_metrics},
      {"GET", "/v1/metrics/stream", Protocol::kOpenAi, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_metrics_stream},
      {"GET", "/v1/requests", Protocol::kOpenAi, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_requests},
      {"POST", "/v1/requests/{id}/cancel", Protocol::kOpenAi, kOpenAi, kNeedsStart, kAnyKey, kServer,
       handle_cancel_request},
      {"GET", "/debug/prefix", Protocol::kOpenAi, kLlamaCpp, kNeedsStart, kAnyKey, kServer, handle_prefix},
  };
  return kRows;
}

}  // namespace cairn::api
