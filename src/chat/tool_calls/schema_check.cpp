#include "chat/tool_calls/schema_check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "chat/output_parts.h"

namespace cairn::chat::tool_call {
namespace {

using nlohmann::ordered_json;

const ordered_json* word(const ordered_json& schema, const char* name) {
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

bool has_type(const ordered_json& type, const ordered_json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type != "integer") return true;
  return value.is_number_integer() || (value.is_number_float() && std::trunc(value.get<double>()) == value);
}

bool type_accepts(const ordered_json& schema, const ordered_json& value) {
  const ordered_json* type = word(schema, "type");
  if (type == nullptr) return true;
  if (value.is_null() && schema.value("nullable", ordered_json()) == true) return true;
  if (!type->is_array()) return has_type(*type, value);
  return std::ranges::any_of(*type, [&](const ordered_json& one) { return has_type(one, value); });
}

bool accepts(const ordered_json& schema, const ordered_json& value, size_t depth);

bool object_accepts(const ordered_json& schema, const ordered_json& value, size_t depth) {
  if (const ordered_json* required = word(schema, "required"); required != nullptr && required->is_array()) {
    for (const ordered_json& name : *required)
      if (name.is_string() && !value.contains(name.get_ref<const std::string&>())) return false;
  }
  const ordered_json* properties = word(schema, "properties");
  const ordered_json* others = schema.contains("patternProperties") ? nullptr : word(schema, "additionalProperties");
  for (const auto& [name, each] : value.items()) {
    const bool declared = properties != nullptr && properties->is_object() && properties->contains(name);
    const ordered_json* rule = declared ? &(*properties)[name] : others;
    if (rule != nullptr && !accepts(*rule, each, depth + 1)) return false;
  }
  return true;
}

bool accepts(const ordered_json& schema, const ordered_json& value, size_t depth) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object() || depth > kArgumentDepthMax) return true;
  const auto accepted_by = [&](const ordered_json& one) { return accepts(one, value, depth + 1); };
  if (!type_accepts(schema, value)) return false;
  const ordered_json* values = word(schema, "enum");
  if (values != nullptr && values->is_array() && std::ranges::find(*values, value) == values->end()) return false;
  if (const ordered_json* only = word(schema, "const"); only != nullptr && *only != value) return false;
  for (const char* name : {"anyOf", "oneOf"}) {
    const ordered_json* choices = word(schema, name);
    if (choices != nullptr && choices->is_array() && std::ranges::none_of(*choices, accepted_by)) return false;
  }
  const ordered_json* all = word(schema, "allOf");
  if (all != nullptr && all->is_array() && !std::ranges::all_of(*all, accepted_by)) return false;
  if (value.is_object()) return object_accepts(schema, value, depth);
  const ordered_json* items = word(schema, "items");
  if (!value.is_array() || items == nullptr) return true;
  return std::ranges::all_of(value, [&](const ordered_json& each) { return accepts(*items, each, depth + 1); });
}

}  // namespace

bool schema_accepts(const ordered_json& schema, const ordered_json& value) { return accepts(schema, value, 0); }

}  // namespace cairn::chat::tool_call
