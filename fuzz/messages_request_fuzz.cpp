// Fuzzes request bodies of Anthropic's Messages: parsing never crashes, and accepted requests have the form that
// templates take.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/anthropic/request.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"
#include "base/log.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::api;  // NOLINT

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Checks that every tool message answers a call of the preceding assistant message, and that contents are strings.
void check_messages(const nlohmann::ordered_json& messages) {
  require(messages.is_array() && !messages.empty());
  std::string previous;
  for (const auto& message : messages) {
    const std::string role = message["role"];
    require(message["content"].is_string());
    require(role == "system" || role == "user" || role == "assistant" || role == "tool");
    require(role != "assistant" || previous != "assistant");
    if (role == "tool") require(message["tool_call_id"].is_string() && previous != "user" && !previous.empty());
    if (message.contains("tool_calls")) {
      for (const auto& call : message["tool_calls"]) require(call["function"]["arguments"].is_string());
    }
    previous = role;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  set_log_level(LogLevel::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RequestContext context;
  const auto body = parse_object({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  for (const auto purpose : {anthropic::Purpose::kAnswer, anthropic::Purpose::kCount}) {
    const auto request = anthropic::parse_messages(context, *body, purpose);
    if (!request) {
      require(!request.error().message.empty());
      require(!dump(error_body(request.error(), ErrorFormat::kAnthropic)).empty());
      continue;
    }
    check_messages(request->chat.input.messages);
    require(request->chat.generate.max_tokens >= 1);
    require(request->chat.tool_name.empty() || request->chat.input.tools.is_array());
  }
  return 0;
}
