// Fuzzes request bodies of Ollama's endpoints and of llama.cpp's /completion: parsing never crashes, and accepted
// requests are within the limits.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/errors.h"
#include "api/llama_cpp/request.h"
#include "api/ollama/embed.h"
#include "api/ollama/request.h"
#include "api/params/generation_params.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::api;  // NOLINT

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_error(const Error& error) {
  require(!error.message.empty());
  require(!dump(error_body(error, ErrorFormat::kOllama)).empty());
}

void check_generate(const engine::GenerateRequest& generate) {
  require(generate.max_tokens == -1 || generate.max_tokens >= 1);
  require(generate.stop.size() <= kStopsMax);
  require(generate.sampling.logit_bias.size() <= sampling::kLogitBiasMax);
  (void)generate.sampling.validate(1000);
}

// Checks what templates rely on: a result names a call of the preceding assistant message.
void check_messages(const nlohmann::ordered_json& messages) {
  require(messages.is_array() && !messages.empty());
  for (const auto& message : messages) {
    require(message["role"].is_string() && message["content"].is_string());
    if (message["role"] == "tool") require(message["tool_call_id"].is_string());
    if (!message.contains("tool_calls")) continue;
    for (const auto& call : message["tool_calls"])
      require(call["id"].is_string() && call["function"]["arguments"].is_string());
  }
}

void check_ollama(const Result<ollama::OllamaRequest>& request) {
  if (!request) return check_error(request.error());
  check_generate(request->chat.generate);
  if (!request->only_load && !request->raw) check_messages(request->chat.input.messages);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RequestContext context;
  const auto body = parse_object({reinterpret_cast<const char*>(data), size});
  if (!body) {
    check_error(body.error());
    return 0;
  }
  check_ollama(ollama::parse_chat(context, *body));
  check_ollama(ollama::parse_generate(context, *body));
  if (const auto embed = ollama::parse_embed(context, *body); !embed) check_error(embed.error());
  if (const auto completion = llama_cpp::parse_completion(context, *body)) {
    check_generate(completion->generate);
    require(!completion->prompts.empty());
    for (const auto& prompt : completion->prompts) require(!prompt.empty());
  } else {
    check_error(completion.error());
  }
  return 0;
}
