#include "api/routes.h"

#include <nlohmann/json.hpp>
#include <string>

#include "api/errors.h"
#include "api/openai/chat.h"
#include "api/stats.h"
#include "api/tokens.h"

namespace cairn::api {
namespace {

struct Route {
  std::string_view method;
  std::string_view path;
  void (*handle)(const Registry&, const net::HttpRequest&, std::shared_ptr<net::HttpResponse>);
};

constexpr std::string_view kModelPrefix = "/v1/models/";

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", openai::handle_chat},
    {"POST", "/v1/completions", openai::handle_completion},
    {"GET", "/v1/models",
     [](const Registry& registry, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       openai::handle_models(registry, "", *response);
     }},
    {"GET", "/health",
     [](const Registry&, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       send_json(*response, {{"status", "ok"}});
     }},
    {"GET", "/stats",
     [](const Registry& registry, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       handle_stats(registry, *response);
     }},
    {"GET", "/v1/metrics",
     [](const Registry& registry, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       handle_metrics(registry, *response);
     }},
    {"GET", "/debug/prefix",
     [](const Registry& registry, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       handle_prefix(registry, request, *response);
     }},
    {"POST", "/tokenize",
     [](const Registry& registry, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       handle_tokenize(registry, request, *response);
     }},
    {"POST", "/detokenize",
     [](const Registry& registry, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       handle_detokenize(registry, request, *response);
     }},
    {"POST", "/apply-template",
     [](const Registry& registry, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       handle_apply_template(registry, request, *response);
     }},
};

void refuse_method(std::string_view method, const net::HttpRequest& request, net::HttpResponse& response) {
  const std::string message = fmt::format("{} takes {}, not {}", request.path, method, request.method.substr(0, 20));
  response.send(405, "application/json", openai_error_body(405, message), {{"Allow", std::string(method)}});
}

void handle_unknown(const net::HttpRequest& request, net::HttpResponse& response) {
  std::string known;
  for (const Route& route : kRoutes)
    known += fmt::format("{}{} {}", known.empty() ? "" : ", ", route.method, route.path);
  const std::string message =
      fmt::format("there is no {} {}; there is {}", request.method.substr(0, 20), request.path.substr(0, 200), known);
  response.send(404, "application/json", openai_error_body(404, message));
}

}  // namespace

net::HttpHandler make_handler(const Registry& registry) {
  return [&registry](net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
    const bool get = request.method == "GET" || request.method == "HEAD";
    for (const Route& route : kRoutes) {
      if (route.path != request.path) continue;
      if (route.method == request.method || (route.method == "GET" && get)) {
        return route.handle(registry, request, std::move(response));
      }
      return refuse_method(route.method, request, *response);
    }
    if (request.path.starts_with(kModelPrefix) && request.path.size() > kModelPrefix.size()) {
      if (!get) return refuse_method("GET", request, *response);
      return openai::handle_models(registry, std::string_view(request.path).substr(kModelPrefix.size()), *response);
    }
    handle_unknown(request, *response);
  };
}

}  // namespace cairn::api
