// Fuzzes request bodies of OpenAI's Responses: parsing never crashes, and accepted requests have the form that
// templates take.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/responses/request.h"
#include "api/responses/transcript.h"
#include "api/serialization/json_text.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::api;  // NOLINT
using nlohmann::ordered_json;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A store that has every response and every item: any id that the input names is found.
responses::StoredItems everything() {
  return {.history = [](const std::string&) -> Result<ordered_json> {
            return ordered_json::parse(R"([{"type":"message","id":"i","role":"user","content":"x"},
                                           {"type":"function_call","id":"f","call_id":"c","name":"f","arguments":"{}"}])");
          },
          .item = [](const std::string&) -> Result<ordered_json> {
            return ordered_json{{"type", "message"}, {"id", "i"}, {"role", "assistant"}, {"content", "y"}};
          }};
}

void check_message(const ordered_json& message) {
  const auto& role = message["role"].get_ref<const std::string&>();
  require(role == "system" || role == "user" || role == "assistant" || role == "tool");
  require(message["content"].is_string() || (role != "assistant" && message["content"].is_array()));
  if (role == "tool") require(message["tool_call_id"].is_string());
  if (!message.contains("tool_calls")) return;
  for (const auto& call : message["tool_calls"]) {
    require(call["id"].is_string() && call["function"]["name"].is_string());
    require(call["function"]["arguments"].is_string() || call["function"]["arguments"].is_object());
  }
}

void check(const ordered_json& body, const responses::StoredItems& stored) {
  RequestContext context;
  const auto request = responses::parse_responses(context, body, stored);
  if (!request) {
    require(!request.error().message.empty() && !dump(openai_error(request.error())).empty());
    return;
  }
  const chat::ChatInput& input = request->chat.input;
  require(input.messages.is_array() && !input.messages.empty());
  for (const auto& message : input.messages) check_message(message);
  require(input.tools.is_null() || !input.tools.empty());
  require(request->chat.tool_name.empty() || input.tools.is_array());
  require(!dump(request->echo).empty());
  require(request->store || request->input.empty());
  // A stored conversation can be read again.
  responses::Transcript again;
  for (const auto& item : request->input) {
    require(item["id"].is_string() && item["type"].is_string());
    if (request->previous_id.empty()) require(again.add(item, "item").has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto body = parse_object({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  check(*body, {});
  check(*body, everything());
  return 0;
}
