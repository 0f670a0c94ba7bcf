/// From a chat's request to its answer, whatever the protocol.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/chat/chat_output.h"
#include "api/chat/request.h"
#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// What a serializer may want to say before the first token.
struct ChatStart {
  std::string id;  ///< of the answer, as GET /debug/prefix takes it
  const LoadedModel& model;
  int choices = 1;
  bool stream = false;
  int32_t prompt_tokens = 0;
};
using MakeChatSerializer = std::function<std::unique_ptr<ChatSerializer>(const ChatStart& start)>;

/// The answer to a conversation, ready to be submitted: its prompt, its constraints, and the parser of what the model
/// writes over the protocol's serializer. `id` is the answer's; whose request it is, `request.generate` says already.
/// Called on a worker; the serializer is made there, and then called on the server's thread.
Result<Answer> prepare_chat(Service& service, const RequestContext& request_context, ChatRequest request,
                            const std::string& id, const MakeChatSerializer& make_serializer);

/// Prepares the conversation's answer and begins it. On an error nothing has been sent yet. `id_prefix`: of the
/// answer's id, "chatcmpl-". Called on a worker.
Result<void> run_chat(Service& service, const RequestContext& request_context, ChatRequest request,
                      std::string_view id_prefix, const net::HttpRequest& http,
                      const std::shared_ptr<net::HttpResponse>& response, const MakeChatSerializer& make_serializer);

/// Tokens of the prompt that the request would have, for endpoints that only count.
Result<int32_t> count_chat_tokens(Service& service, const RequestContext& request_context, ChatRequest request,
                                  const net::HttpRequest& http);

}  // namespace cairn::api
