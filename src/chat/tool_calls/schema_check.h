/// Whether a JSON Schema accepts a value, by the words that tools' schemas are made of.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace cairn::chat::tool_call {

/// Knows type, enum, const, required, properties, additionalProperties, items, anyOf, oneOf, allOf and nullable. Words
/// that it does not know, `$ref` among them, are no reason to refuse. Nesting beyond kArgumentDepthMax is not looked
/// at.
///
/// Source: JSON Schema, draft 2020-12, "Validation" and "Core".
bool schema_accepts(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value);

}  // namespace cairn::chat::tool_call
