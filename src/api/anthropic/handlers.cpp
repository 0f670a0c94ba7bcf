#include "api/anthropic/handlers.h"

#include <nlohmann/json.hpp>

#include "api/anthropic/request.h"
#include "api/anthropic/serializer.h"
#include "api/chat/run.h"
#include "api/errors.h"
#include "api/params/request_fields.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

Result<void> answer(Service& service, RequestContext& context, const net::HttpRequest& http,
                    const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(MessagesRequest request, parse_messages(context, body, Purpose::kAnswer));
  ResponseOptions options;
  options.stream = request.chat.stream;
  options.max_tokens = request.chat.generate.max_tokens;
  options.shows_thinking = request.shows_thinking;
  options.marks_cache = request.marks_cache;
  options.answers = request.answers;
  return run_chat(service, context, std::move(request.chat), "msg_", http, response, [&](const ChatStart& start) {
    options.id = start.id;
    options.model = start.model.name;
    options.prompt_tokens = start.prompt_tokens;
    return std::make_unique<MessagesSerializer>(std::move(options));
  });
}

Result<int32_t> count(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(MessagesRequest request, parse_messages(context, body, Purpose::kCount));
  return count_chat_tokens(service, context, std::move(request.chat), http);
}

}  // namespace

void handle_messages(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = answer(service, context, request, response); !done)
    send_error(*response, done.error(), ErrorFormat::kAnthropic);
}

void handle_count_tokens(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response) {
  const auto tokens = count(service, context, request);
  if (!tokens) return send_error(*response, tokens.error(), ErrorFormat::kAnthropic);
  send_json(*response, {{"input_tokens", *tokens}}, context.wanted_warnings());
}

}  // namespace cairn::api::anthropic
