/// From a request for text to its answer, whatever the protocol: a conversation's next message (chat), or what
/// continues prompts (completion).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/chat/chat_output.h"
#include "api/chat/request.h"
#include "api/service.h"

namespace cairn::api {

/// What a serializer may want to say before the first token.
struct ChatStart {
  std::string id;  ///< of the answer, as GET /debug/prefix takes it
  const loader::LoadedModel& model;
  int choices = 1;
  bool stream = false;
  std::span<const TokenId> prompt{};
};
using MakeChatSerializer = std::function<std::unique_ptr<ChatSerializer>(const ChatStart& start)>;

/// The answer to a conversation, ready to be submitted: its prompt, its constraints, and the parser of what the model
/// writes over the protocol's serializer. `id` is the answer's; whose request it is, `request.generate` says already.
/// Called on a worker; the serializer is made there, and then called on the server's thread.
Result<Answer> prepare_chat(Service& service, RequestContext& context, ChatRequest request, const std::string& id,
                            const MakeChatSerializer& make_serializer);
/// The same for prompts, of which each has a request; `form` is what their answers are held to.
Result<Answer> prepare_completion(Service& service, const loader::SharedModel& model,
                                  std::vector<engine::GenerateRequest> requests, const chat::AnswerForm& form,
                                  std::unique_ptr<ResponseSerializer> serializer);

/// Prepares the conversation's answer and begins it. On an error nothing has been sent yet. `id_prefix`: of the
/// answer's id, "chatcmpl-". Called on a worker.
Result<void> run_chat(Exchange& exchange, ChatRequest request, std::string_view id_prefix,
                      const MakeChatSerializer& make_serializer);
/// The same for prompts, which came in `prompt_field`.
Result<void> run_completion(Exchange& exchange, const loader::SharedModel& model,
                            std::vector<engine::GenerateRequest> requests, const chat::AnswerForm& form,
                            std::unique_ptr<ResponseSerializer> serializer, std::string prompt_field = "prompt");

/// Tokens of the prompt that the request would have, for endpoints that only count.
Result<int32_t> count_chat_tokens(Exchange& exchange, ChatRequest request);

}  // namespace cairn::api
