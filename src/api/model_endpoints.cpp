// What models there are, in the words of OpenAI's and Anthropic's clients, which share the paths; and loading them.
#include "api/anthropic/handlers.h"
#include "api/endpoint.h"
#include "api/model_list.h"
#include "api/openai/handlers.h"

namespace cairn::api {
namespace {

/// All of them where the path has no id.
void handle_models(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  if (anthropic::speaks_anthropic(request)) return anthropic::handle_models(service, context, request, *response);
  openai::handle_models(service, context, *response);
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
      {"GET", "/v1/models/{id...}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_models},
      {"POST", "/v1/models/load", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_load},
      {"POST", "/models/load", kProtocol, kLlamaCpp, kNeedsStart, kManagingKey, kWorker, handle_load},
      {"POST", "/v1/models/unload", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_unload},
      {"POST", "/models/unload", kProtocol, kLlamaCpp, kNeedsStart, kManagingKey, kWorker, handle_unload},
  };
  return kRows;
}

}  // namespace cairn::api
