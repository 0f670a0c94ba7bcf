#include "chat/generic_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text/json.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

// Hermes, or the template's own format if its arguments are JSON.
std::string written_call(const tool_call::ToolStyle* style, const std::string& name, std::string_view arguments) {
  if (style == nullptr || style->syntax.form != tool_call::ArgumentForm::kJson) {
    return fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>", written_json(name), arguments);
  }
  const std::string id(static_cast<size_t>(style->id_bytes), '0');
  return fmt::format("{}{}{}{}", tool_call::forced_opening(*style, name, 0, id), arguments, style->syntax.call_close,
                     style->syntax.block_close);
}

}  // namespace

std::string written_json(const ordered_json& value) { return json_text(value); }

std::string tools_as_text(const ordered_json& tools, const tool_call::ToolStyle* style) {
  std::string text = "You can call functions. These are their signatures, one JSON object a line:\n<tools>\n";
  for (const auto& tool : tools) text += written_json(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text + "</tools>\nTo call one, answer in this form, with its name and its arguments as JSON, once for every " +
         "call:\n" + written_call(style, "NAME", "{}");
}

std::string call_as_text(const ordered_json& call, const tool_call::ToolStyle* style) {
  const ordered_json function = call.value("function", ordered_json::object());
  const ordered_json arguments = function.value("arguments", ordered_json::object());
  const ordered_json name = function.value("name", ordered_json(""));
  return written_call(style, name.is_string() ? name.get<std::string>() : "",
                      arguments.is_string() ? arguments.get<std::string>() : written_json(arguments));
}

ordered_json result_as_text(ordered_json content) {
  constexpr std::string_view kOpen = "<tool_response>\n";
  constexpr std::string_view kClose = "\n</tool_response>";
  if (content.is_array()) {
    std::string text;
    const bool is_text = std::ranges::all_of(content, [&](const ordered_json& part) {
      if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return false;
      if (!text.empty()) text += '\n';
      text += part["text"].get_ref<const std::string&>();
      return true;
    });
    if (!is_text) return content;  // the template says what it cannot show
    content = std::move(text);
  }
  return fmt::format("{}{}{}", kOpen, content.is_string() ? content.get_ref<const std::string&>() : "", kClose);
}

}  // namespace cairn::chat
