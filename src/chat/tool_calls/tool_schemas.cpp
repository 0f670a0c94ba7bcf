#include "chat/tool_calls/tool_schemas.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cairn::chat::tool_call {
namespace {

using nlohmann::ordered_json;

const ordered_json* member(const ordered_json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? &*found : nullptr;
}

ValueKind kind_of_types(const ordered_json& types) {
  bool string = false;
  bool null = false;
  bool other = false;
  for (const ordered_json& type : types) {
    string |= type == "string";
    null |= type == "null";
    other |= type != "string" && type != "null";
  }
  if (string && other) return ValueKind::kUnknown;
  if (string) return null ? ValueKind::kStringOrNull : ValueKind::kString;
  return other ? ValueKind::kOther : ValueKind::kUnknown;
}

ValueKind kind_of_schema(const ordered_json& schema) {
  if (const auto* type = member(schema, "type"))
    return kind_of_types(type->is_array() ? *type : ordered_json::array({*type}));
  if (const auto* values = member(schema, "enum"); values != nullptr && values->is_array() && !values->empty())
    return std::ranges::all_of(*values, [](const ordered_json& value) { return value.is_string(); })
               ? ValueKind::kString
               : ValueKind::kUnknown;
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto* choices = member(schema, key);
    if (choices == nullptr || !choices->is_array()) continue;
    ordered_json types = ordered_json::array();
    for (const ordered_json& choice : *choices) {
      const auto* type = member(choice, "type");
      if (type == nullptr || !type->is_string()) return ValueKind::kUnknown;
      types.push_back(*type);
    }
    return kind_of_types(types);
  }
  return ValueKind::kUnknown;
}

}  // namespace

ToolSchemas::ToolSchemas(const ordered_json& tools) {
  if (!tools.is_array()) return;
  for (const ordered_json& tool : tools) {
    const auto* inner = member(tool, "function");
    const ordered_json& function = inner != nullptr ? *inner : tool;
    const auto* name = member(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    auto& parameters = functions_[name->get<std::string>()];
    const auto* schema = member(function, "parameters");
    const auto* properties = schema != nullptr ? member(*schema, "properties") : nullptr;
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, value] : properties->items()) parameters[key] = kind_of_schema(value);
  }
}

bool ToolSchemas::may_name(std::string_view function) const {
  return functions_.empty() || functions_.contains(function);
}

bool ToolSchemas::begins_name(std::string_view beginning) const {
  const auto next = functions_.lower_bound(beginning);
  return next != functions_.end() && next->first.starts_with(beginning);
}

ValueKind ToolSchemas::kind(std::string_view function, std::string_view parameter) const {
  const auto parameters = functions_.find(function);
  if (parameters == functions_.end()) return ValueKind::kUnknown;
  const auto found = parameters->second.find(parameter);
  return found == parameters->second.end() ? ValueKind::kUnknown : found->second;
}

}  // namespace cairn::chat::tool_call
