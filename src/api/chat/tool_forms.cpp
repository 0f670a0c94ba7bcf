#include "api/chat/tool_forms.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"
#include "base/text/json.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

const ordered_json* member(const ordered_json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const ordered_json& object, std::string_view name) {
  const ordered_json* value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

ordered_json custom_function(const ordered_json& tool) {
  const ordered_json* nested = member(tool, "custom");
  const ordered_json& custom = nested == nullptr ? tool : *nested;
  std::string description = text_of(custom, "description");
  if (const ordered_json* format = member(custom, "format"); format != nullptr && member(*format, "grammar") != nullptr)
    description += "\nThe input follows this grammar: " + dump(*member(*format, "grammar"));
  return {{"type", "function"},
          {"function",
           {{"name", text_of(custom, "name")},
            {"description", std::move(description)},
            {"parameters",
             {{"type", "object"},
              {"properties", {{kCustomInput, {{"type", "string"}}}}},
              {"required", ordered_json::array({kCustomInput})}}}}}};
}

}  // namespace

ordered_json function_tool(const ordered_json& tool) {
  if (!tool.is_object()) return tool;
  const std::string type = text_of(tool, "type");
  if (type == "custom") return custom_function(tool);
  if (!type.empty() && type != "function") return tool;
  if (member(tool, "function") != nullptr) {
    ordered_json typed = tool;
    typed["type"] = "function";
    return typed;
  }
  if (text_of(tool, "name").empty()) return tool;
  ordered_json function = tool;
  function.erase("type");
  return {{"type", "function"}, {"function", std::move(function)}};
}

ordered_json plain_tool_choice(const ordered_json& choice) {
  if (choice == "any") return "required";
  if (!choice.is_object()) return choice;
  const std::string type = text_of(choice, "type");
  if (type == "auto" || type == "none" || type == "required") return type;
  if (type == "any") return "required";
  const bool named = type == "function" || type == "custom" || type == "tool" || type.empty();
  const std::string name = tool_name_of(choice);
  if (!named || name.empty()) return choice;
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

std::string tool_name_of(const ordered_json& tool) {
  for (const auto* wrapper : {"function", "custom"}) {
    if (const ordered_json* inner = member(tool, wrapper)) return text_of(*inner, "name");
  }
  return text_of(tool, "name");
}

Result<grammar::CallInput> custom_call_input(const ordered_json& tool, const std::string& path) {
  using Syntax = grammar::CallInput::Syntax;
  const ordered_json* nested = member(tool, "custom");
  const ordered_json* format = member(nested == nullptr ? tool : *nested, "format");
  if (format == nullptr || text_of(*format, "type") != "grammar")
    return grammar::CallInput{.key = std::string(kCustomInput), .syntax = Syntax::kRegex, .definition = "[\\s\\S]*"};
  const ordered_json* inner = member(*format, "grammar");
  const ordered_json& described = inner == nullptr ? *format : *inner;
  const std::string syntax = text_of(described, "syntax");
  std::string definition = text_of(described, "definition");
  if ((syntax != "lark" && syntax != "regex") || definition.empty())
    return invalid_field(path + ".format", "needs a syntax, lark or regex, and a definition");
  return grammar::CallInput{.key = std::string(kCustomInput),
                            .syntax = syntax == "lark" ? Syntax::kLark : Syntax::kRegex,
                            .definition = std::move(definition)};
}

Result<chat::CustomInputs> custom_call_inputs(const ordered_json& tools) {
  chat::CustomInputs inputs;
  if (!tools.is_array()) return inputs;
  for (size_t i = 0; i < tools.size(); ++i) {
    if (text_of(tools[i], "type") != "custom") continue;
    CAIRN_TRY(inputs[tool_name_of(tools[i])], custom_call_input(tools[i], fmt::format("tools[{}]", i)));
  }
  return inputs;
}

std::set<std::string, std::less<>> custom_tool_names(const ordered_json& tools) {
  std::set<std::string, std::less<>> names;
  if (!tools.is_array()) return names;
  for (const auto& tool : tools)
    if (text_of(tool, "type") == "custom") names.insert(tool_name_of(tool));
  return names;
}

void functions_for_custom_calls(ordered_json& messages) {
  if (!messages.is_array()) return;
  for (auto& message : messages) {
    const ordered_json* calls = member(message, "tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (auto& call : message["tool_calls"]) {
      const ordered_json* custom = member(call, "custom");
      if (custom == nullptr) continue;
      const ordered_json arguments = {{kCustomInput, text_of(*custom, "input")}};
      ordered_json function = {{"name", text_of(*custom, "name")}, {"arguments", dump(arguments)}};
      call["type"] = "function";
      call["function"] = std::move(function);
      call.erase("custom");
    }
  }
}

std::string custom_input(const std::string& arguments) {
  const auto parsed = read_json(arguments);
  if (!parsed || !parsed->is_object() || parsed->size() != 1) return arguments;
  const ordered_json* input = member(*parsed, kCustomInput);
  return input != nullptr && input->is_string() ? input->get<std::string>() : arguments;
}

}  // namespace cairn::api
