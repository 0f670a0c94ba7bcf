#include "api/ollama/request.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "api/chat/messages.h"
#include "api/chat/unreadable.h"
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
  bool after_tool = false;
};

Result<ordered_json> convert_call(RequestContext& context, const ordered_json& given, const std::string& path,
                                  Conversion& conversion) {
  if (!given.is_object()) return fail_at(path, Code::kInvalidArgument, "{} must be an object", path);
  const auto function = given.find("function");
  if (function == given.end() || !function->is_object())
    return fail_at(path + ".function", Code::kInvalidArgument, "{}.function is missing or not an object", path);
  RequestFields fields(context, *function, path + ".function.");
  Call call;
  call.name = fields.string("name", "");
  if (call.name.empty()) fields.reject("name", "is missing or empty");
  const ordered_json* arguments = fields.get("arguments");
  for (const auto& [name, value] : function->items()) fields.accept({name});
  CAIRN_TRY_VOID(fields.finish());

  ++conversion.calls_seen;
  const auto id = given.find("id");
  const bool has_id = id != given.end() && id->is_string() && !id->get_ref<const std::string&>().empty();
  call.id = has_id ? id->get<std::string>() : history_call_id(conversion.calls_seen);
  // A string, as OpenAI has it, is what some clients keep of a call.
  std::string text = "{}";
  if (arguments != nullptr) text = arguments->is_string() ? arguments->get<std::string>() : dump(*arguments);
  ordered_json converted = {
      {"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", std::move(text)}}}};
  conversion.calls.push_back(std::move(call));
  return converted;
}

Result<void> convert_calls(RequestFields& fields, ordered_json& converted, Conversion& conversion) {
  const ordered_json* calls = fields.get("tool_calls");
  if (calls == nullptr || (calls->is_array() && calls->empty())) return {};
  conversion.calls.clear();
  const std::string path = fields.path_of("tool_calls");
  if (!calls->is_array() || calls->size() > kHistoryCallsMax)
    return fail_at(path, Code::kInvalidArgument, "{} must be an array of at most {} calls", path, kHistoryCallsMax);
  for (size_t i = 0; i < calls->size(); ++i) {
    CAIRN_TRY(ordered_json call,
              convert_call(fields.context(), (*calls)[i], fmt::format("{}[{}]", path, i), conversion));
    converted["tool_calls"].push_back(std::move(call));
  }
  return {};
}

// Says which call the tool's message answers.
void convert_result(RequestFields& fields, ordered_json& converted, Conversion& conversion) {
  const std::string id = fields.string("tool_call_id", "");
  std::string name = fields.string("tool_name", "");
  if (name.empty()) name = fields.string("name", "");
  const auto call = std::ranges::find_if(conversion.calls, [&](const Call& open) {
    return id.empty() ? !open.answered && (name.empty() || open.name == name) : open.id == id;
  });
  if (call != conversion.calls.end()) call->answered = true;
  if (!id.empty()) converted["tool_call_id"] = id;
  if (id.empty())
    converted["tool_call_id"] =
        call == conversion.calls.end() ? history_call_id(++conversion.calls_seen) : std::string(call->id);
  if (name.empty() && call != conversion.calls.end()) name = call->name;
  if (!name.empty()) converted["name"] = name;
}

// The pictures of a tool's message, or of the user's that has nothing else and stands behind one, become notes.
void convert_images(RequestFields& fields, ordered_json& converted, bool after_tool) {
  const ordered_json* images = fields.get("images");
  if (images == nullptr || (images->is_array() && images->empty())) return;
  const bool of_tool =
      converted["role"] == "tool" || (after_tool && converted["role"] == "user" && converted["content"] == "");
  if (!of_tool || !images->is_array()) return fields.only_empty("images", "this model reads text only");
  std::string text = converted["content"];
  for (size_t i = 0; i < images->size(); ++i) text += (text.empty() ? "" : "\n") + unreadable_part({{"type", "image"}});
  converted["content"] = std::move(text);
}

Result<ordered_json> convert_message(RequestContext& context, const ordered_json& given, const std::string& path,
                                     Conversion& conversion) {
  if (!given.is_object())
    return fail_at(path, Code::kInvalidArgument, "{} must be an object, not {}", path, json_kind(given));
  RequestFields fields(context, given, path + ".");
  const std::string role = fields.string("role", "");
  ordered_json converted = {{"role", role}, {"content", fields.string("content", "")}};
  if (const std::string thinking = fields.string("thinking", ""); !thinking.empty())
    converted["reasoning_content"] = thinking;
  convert_images(fields, converted, conversion.after_tool);
  conversion.after_tool = role == "tool";
  if (role == "assistant") CAIRN_TRY_VOID(convert_calls(fields, converted, conversion));
  if (role == "tool") convert_result(fields, converted, conversion);
  for (const auto& [name, value] : given.items()) fields.accept({name});
  CAIRN_TRY_VOID(fields.finish());
  return converted;
}

}  // namespace

Result<ordered_json> convert_messages(RequestContext& context, const ordered_json& messages) {
  if (!messages.is_array())
    return fail_at("messages", Code::kInvalidArgument, "messages must be an array, not {}", json_kind(messages));
  ordered_json converted = ordered_json::array();
  Conversion conversion;
  for (size_t i = 0; i < messages.size(); ++i) {
    CAIRN_TRY(ordered_json message, convert_message(context, messages[i], fmt::format("messages[{}]", i), conversion));
    converted.push_back(std::move(message));
  }
  return converted;
}

}  // namespace cairn::api::ollama
