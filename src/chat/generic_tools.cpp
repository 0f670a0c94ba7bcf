#include "chat/generic_tools.h"

#include <algorithm>

namespace cairn {
namespace {

using nlohmann::ordered_json;

std::string written(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string tools_text(const ordered_json& tools) {
  std::string text = "You can call functions. These are their signatures, one JSON object a line:\n<tools>\n";
  for (const auto& tool : tools) text += written(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text +
         "</tools>\nTo call one, answer with its name and its arguments as JSON between these tags, once for every "
         "call:\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>";
}

// Appends text to a content that is a string, a list of parts, or null, or puts it in front.
void add_text(ordered_json& content, const std::string& text, bool in_front = false) {
  if (content.is_array()) {
    content.insert(in_front ? content.begin() : content.end(), ordered_json{{"type", "text"}, {"text", text}});
  } else {
    const std::string old = content.is_string() ? content.get<std::string>() : std::string();
    const std::string_view between = old.empty() ? "" : "\n";
    content = in_front ? fmt::format("{}{}{}", text, between, old) : fmt::format("{}{}{}", old, between, text);
  }
}

std::string call_text(const ordered_json& call) {
  const ordered_json function = call.value("function", ordered_json::object());
  const ordered_json arguments = function.value("arguments", ordered_json::object());
  // Arguments that are not JSON stay as they were written.
  return fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                     written(function.value("name", ordered_json(""))),
                     arguments.is_string() ? arguments.get<std::string>() : written(arguments));
}

bool is_role(const ordered_json& message, std::string_view role) {
  return message.is_object() && message.contains("role") && message["role"] == role;
}

}  // namespace

bool speaks_of_tools(const ChatInput& input) {
  if (input.tools.is_array() && !input.tools.empty()) return true;
  return input.messages.is_array() && std::ranges::any_of(input.messages, [](const auto& message) {
           return is_role(message, "tool") || (message.is_object() && message.contains("tool_calls"));
         });
}

ChatInput with_generic_tools(const ChatInput& input) {
  ChatInput output = input;
  output.tools = nullptr;
  output.messages = ordered_json::array();
  if (input.tools.is_array() && !input.tools.empty()) {
    if (input.messages.empty() || !is_role(input.messages[0], "system"))
      output.messages.push_back({{"role", "system"}, {"content", ""}});
  }
  bool after_result = false;
  for (const ordered_json& message : input.messages) {
    if (is_role(message, "tool")) {
      // Results of several calls become one message, since many templates require user and assistant to alternate.
      if (!after_result) output.messages.push_back({{"role", "user"}, {"content", ""}});
      ordered_json text = message.value("content", ordered_json(""));
      add_text(text, "<tool_response>", true);
      add_text(text, "</tool_response>");
      auto& content = output.messages.back()["content"];
      if (text.is_string()) {
        add_text(content, text.get<std::string>());
      } else {
        for (const auto& part : text) add_text(content, part.value("text", ""));
      }
      after_result = true;
      continue;
    }
    output.messages.push_back(message);
    ordered_json& added = output.messages.back();
    if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array()) {
      for (const auto& call : *calls) add_text(added["content"], call_text(call));
      added.erase("tool_calls");
    }
    after_result = false;
  }
  if (input.tools.is_array() && !input.tools.empty()) add_text(output.messages[0]["content"], tools_text(input.tools));
  return output;
}

}  // namespace cairn
