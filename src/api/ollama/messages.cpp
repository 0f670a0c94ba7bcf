#include "api/ollama/messages.h"

#include <algorithm>
#include <string>
#include <vector>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

/// A call of the assistant's last message.
struct Call {
  std::string id;
  std::string name;
  bool answered = false;
};

struct Conversion {
  std::vector<Call> calls;
  int calls_seen = 0;  // of the whole conversation
};

constexpr std::string_view kNoTool =
    "is there without a call of the assistant's message before it that has no result yet";

// Nine letters and digits: Mistral's templates refuse ids of any other length.
std::string make_id(int number) { return fmt::format("call{:05}", number); }

Result<ordered_json> convert_call(const ordered_json& given, const std::string& path, Conversion& conversion) {
  if (!given.is_object()) return fail_at(path, Code::kInvalidArgument, "{} must be an object", path);
  const auto function = given.find("function");
  if (function == given.end() || !function->is_object())
    return fail_at(path + ".function", Code::kInvalidArgument, "{}.function is missing or not an object", path);
  RequestFields fields(*function, path + ".function.");
  Call call;
  call.name = fields.string("name", "");
  if (call.name.empty()) fields.reject("name", "is missing or empty");
  const ordered_json* arguments = fields.get("arguments");
  // A string, as OpenAI has it, is what some clients keep of a call.
  if (arguments != nullptr && !arguments->is_object() && !arguments->is_string())
    fields.reject("arguments", fmt::format("must be an object, not {}", json_kind(*arguments)));
  for (const auto& [name, value] : function->items()) fields.accept({name});
  CAIRN_TRY_VOID(fields.finish());

  ++conversion.calls_seen;
  const auto id = given.find("id");
  const bool has_id = id != given.end() && id->is_string() && !id->get_ref<const std::string&>().empty();
  call.id = has_id ? id->get<std::string>() : make_id(conversion.calls_seen);
  std::string text = "{}";
  if (arguments != nullptr) text = arguments->is_string() ? arguments->get<std::string>() : dump(*arguments);
  ordered_json converted = {
      {"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", std::move(text)}}}};
  conversion.calls.push_back(std::move(call));
  return converted;
}

Result<void> convert_calls(RequestFields& fields, ordered_json& converted, Conversion& conversion) {
  conversion.calls.clear();
  const ordered_json* calls = fields.get("tool_calls");
  if (calls == nullptr) return {};
  const std::string path = fields.path_of("tool_calls");
  if (!calls->is_array() || calls->size() > kHistoryCallsMax)
    return fail_at(path, Code::kInvalidArgument, "{} must be an array of at most {} calls", path, kHistoryCallsMax);
  for (size_t i = 0; i < calls->size(); ++i) {
    CAIRN_TRY(ordered_json call, convert_call((*calls)[i], fmt::format("{}[{}]", path, i), conversion));
    converted["tool_calls"].push_back(std::move(call));
  }
  return {};
}

// Says which call the tool's message answers.
void convert_result(RequestFields& fields, ordered_json& converted, Conversion& conversion) {
  const std::string id = fields.string("tool_call_id", "");
  std::string name = fields.string("tool_name", "");
  const std::string_view name_field = name.empty() ? "name" : "tool_name";
  if (name.empty()) name = fields.string("name", "");
  const auto call = std::ranges::find_if(conversion.calls, [&](const Call& open) {
    return id.empty() ? !open.answered && (name.empty() || open.name == name) : open.id == id;
  });
  if (call != conversion.calls.end()) call->answered = true;
  if (call == conversion.calls.end() && id.empty())
    return fields.reject(name.empty() ? "role" : name_field, std::string(kNoTool));
  converted["tool_call_id"] = id.empty() ? call->id : id;
  if (name.empty() && call != conversion.calls.end()) name = call->name;
  if (!name.empty()) converted["name"] = name;
}

Result<ordered_json> convert_message(const ordered_json& given, const std::string& path, Conversion& conversion) {
  if (!given.is_object())
    return fail_at(path, Code::kInvalidArgument, "{} must be an object, not {}", path, json_kind(given));
  RequestFields fields(given, path + ".");
  const std::string role = fields.string("role", "");
  ordered_json converted = {{"role", role}, {"content", fields.string("content", "")}};
  if (const std::string thinking = fields.string("thinking", ""); !thinking.empty())
    converted["reasoning_content"] = thinking;
  fields.only_empty("images", "this model reads text only");
  if (role == "assistant") CAIRN_TRY_VOID(convert_calls(fields, converted, conversion));
  if (role == "tool") convert_result(fields, converted, conversion);
  if (role == "user") conversion.calls.clear();
  for (const auto& [name, value] : given.items()) fields.accept({name});
  CAIRN_TRY_VOID(fields.finish());
  return converted;
}

}  // namespace

Result<ordered_json> convert_messages(const ordered_json& messages) {
  if (!messages.is_array())
    return fail_at("messages", Code::kInvalidArgument, "messages must be an array, not {}", json_kind(messages));
  ordered_json converted = ordered_json::array();
  Conversion conversion;
  for (size_t i = 0; i < messages.size(); ++i) {
    CAIRN_TRY(ordered_json message, convert_message(messages[i], fmt::format("messages[{}]", i), conversion));
    converted.push_back(std::move(message));
  }
  return converted;
}

}  // namespace cairn::api::ollama
