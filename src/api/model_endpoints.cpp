// What models there are, in the words of OpenAI's and Anthropic's clients, which share the paths; and loading them.
#include "api/anthropic/handlers.h"
#include "api/endpoint.h"
#include "api/models/model_list.h"
#include "api/openai/handlers.h"

namespace cairn::api {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

/// `id`: empty for the list.
void answer_models(Service& service, const net::HttpRequest& request, std::string_view id,
                   net::HttpResponse& response) {
  if (anthropic::speaks_anthropic(request)) return anthropic::handle_models(service, request, id, response);
  openai::handle_models(service, id, response);
}

void handle_models(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  answer_models(service, request, "", *response);
}

void handle_model(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  answer_models(service, request, std::string_view(request.path).substr(kModelPrefix.size()), *response);
}

}  // namespace

std::span<const Endpoint> model_endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOpenAi;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"GET", "/v1/models", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_models},
      {"GET", "/models", kProtocol, kLlamaCpp, kNeedsStart, kAnyKey, kServer, handle_models},
      {"GET", "/v1/models/{id...}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_model},
      {"POST", "/v1/models/load", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_load},
      {"POST", "/models/load", kProtocol, kLlamaCpp, kNeedsStart, kManagingKey, kWorker, handle_load},
      {"POST", "/v1/models/unload", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_unload},
      {"POST", "/models/unload", kProtocol, kLlamaCpp, kNeedsStart, kManagingKey, kWorker, handle_unload},
  };
  return kRows;
}

}  // namespace cairn::api
