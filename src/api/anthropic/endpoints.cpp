// The endpoints of Anthropic's API. Its lists of models share their paths with OpenAI's: model_endpoints.cpp.
//
// Source: Anthropic API reference, "Messages".
#include "api/anthropic/request.h"
#include "api/anthropic/serializer.h"
#include "api/chat/run.h"
#include "api/endpoint.h"

namespace cairn::api::anthropic {
namespace {

Result<void> handle_messages(Exchange& exchange) {
  CAIRN_TRY(MessagesRequest request, read_body(exchange, parse_messages, Purpose::kAnswer));
  ResponseOptions options;
  options.stream = request.chat.stream;
  options.max_tokens = request.chat.generate.max_tokens;
  options.shows_thinking = request.shows_thinking;
  options.marks_cache = request.marks_cache;
  return run_chat(exchange, std::move(request.chat), "msg_", [&](const ChatStart& start) {
    options.id = start.id;
    options.model = start.model.name;
    options.prompt_tokens = static_cast<int32_t>(start.prompt.size());
    return std::make_unique<MessagesSerializer>(std::move(options));
  });
}

Result<void> handle_count_tokens(Exchange& exchange) {
  CAIRN_TRY(MessagesRequest request, read_body(exchange, parse_messages, Purpose::kCount));
  CAIRN_TRY(const int32_t tokens, count_chat_tokens(exchange, std::move(request.chat)));
  return send_json(exchange, {{"input_tokens", tokens}});
}

}  // namespace

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
