/// OpenAI's request bodies for chat completions and completions -> what the engine and the templates take.
///
/// Source: OpenAI API reference, "Chat Completions" and "Completions"; fields beyond it are those that llama.cpp and
/// vLLM share. docs/api/openai.md lists every field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "api/chat/request.h"
#include "api/params/answer_form.h"
#include "base/error.h"
#include "engine/engine.h"

namespace cairn::api {
class RequestContext;
}  // namespace cairn::api

namespace cairn::api::openai {

/// What a client may ask for beside the answer itself.
struct AnswerExtras {
  bool include_usage = false;     ///< a stream's last chunk has the counts
  bool continuous_usage = false;  ///< every chunk has them, as far as they are known (vLLM)
  bool prompt_logprobs = false;   ///< the log-probabilities of the prompt in vLLM's form
  bool return_token_ids = false;  ///< the ids of prompt and answer (vLLM)
  bool return_progress = false;   ///< how far the prompt is (llama.cpp)
  bool timings_per_token = false;
};

/// What both endpoints take besides the prompt.
struct CommonFields {
  std::string model;
  int choices = 1;  ///< n
  bool stream = false;
  AnswerExtras extras;
  engine::GenerateRequest generate;  ///< everything but the prompt, the id and the tenant
};

struct OpenAiChatRequest {
  ChatRequest chat;
  std::set<std::string, std::less<>> custom_tools;  ///< names of those whose calls are answered as custom calls
  bool has_functions = false;  ///< the tools are functions in the old form, and so is the call of the answer
  AnswerExtras extras;
};

using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;
struct CompletionRequest {
  chat::AnswerForm form;  ///< what the answers are held to
  CommonFields common;
  std::vector<CompletionPrompt> prompts;
  bool echo = false;   ///< the text begins with the prompt
  std::string suffix;  ///< what comes after the text: the middle is filled in; empty: nothing
};

Result<OpenAiChatRequest> parse_chat(RequestContext& context, const nlohmann::ordered_json& body);
Result<CompletionRequest> parse_completion(RequestContext& context, const nlohmann::ordered_json& body);

}  // namespace cairn::api::openai
