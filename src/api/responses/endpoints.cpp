// The endpoints of OpenAI's Responses API.
#include "api/endpoint.h"
#include "api/responses/handlers.h"

namespace cairn::api::responses {

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kResponses;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"POST", "/v1/responses", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_create},
      {"POST", "/responses", kProtocol, kLlamaCpp, kNeedsChat, kAnyKey, kWorker, handle_create},
      {"POST", "/v1/responses/input_tokens", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_input_tokens},
      {"POST", "/v1/responses/compact", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_compact},
      {"GET", "/v1/responses/{id}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_retrieve, answer_running},
      {"DELETE", "/v1/responses/{id}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_remove,
       refuse_to_remove_running},
      {"POST", "/v1/responses/{id}/cancel", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_cancel,
       cancel_running},
      {"GET", "/v1/responses/{id}/input_items", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_input_items},
  };
  return kRows;
}

}  // namespace cairn::api::responses
