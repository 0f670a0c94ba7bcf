// The endpoints of Anthropic's API. Its lists of models share their paths with OpenAI's: model_endpoints.cpp.
#include "api/anthropic/handlers.h"
#include "api/endpoint.h"

namespace cairn::api::anthropic {

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kAnthropic;
  constexpr auto kErrors = ErrorFormat::kAnthropic;
  static constexpr Endpoint kRows[] = {
      {"POST", "/v1/messages", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_messages},
      {"POST", "/v1/messages/count_tokens", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_count_tokens},
  };
  return kRows;
}

}  // namespace cairn::api::anthropic
