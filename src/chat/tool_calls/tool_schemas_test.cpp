// Types of parameters as tools' schemas give them.
#include "chat/tool_calls/tool_schemas.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::chat::tool_call {
namespace {

using nlohmann::ordered_json;

ValueKind kind_of(const char* schema) {
  const ordered_json tools = ordered_json::array({ordered_json{
      {"type", "function"},
      {"function",
       {{"name", "f"}, {"parameters", {{"type", "object"}, {"properties", {{"p", ordered_json::parse(schema)}}}}}}}}});
  return ToolSchemas(tools).kind("f", "p");
}

TEST(ToolSchemas, ReadsTheTypesOfParameters) {
  EXPECT_EQ(kind_of(R"({"type": "string"})"), ValueKind::kString);
  EXPECT_EQ(kind_of(R"({"enum": ["a", "b"]})"), ValueKind::kString);
  EXPECT_EQ(kind_of(R"({"enum": ["a", 1]})"), ValueKind::kUnknown);
  EXPECT_EQ(kind_of(R"({"type": ["null", "string"]})"), ValueKind::kStringOrNull);
  EXPECT_EQ(kind_of(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})"), ValueKind::kStringOrNull);
  EXPECT_EQ(kind_of(R"({"oneOf": [{"type": "number"}, {"type": "null"}]})"), ValueKind::kOther);
  EXPECT_EQ(kind_of(R"({"anyOf": [{"type": "string"}, {"type": "number"}]})"), ValueKind::kUnknown);
  EXPECT_EQ(kind_of(R"({"anyOf": [{"$ref": "#/x"}, {"type": "string"}]})"), ValueKind::kUnknown);
  for (const char* type : {"integer", "number", "boolean", "object", "array"})
    EXPECT_EQ(kind_of(("{\"type\": \"" + std::string(type) + "\"}").c_str()), ValueKind::kOther);
  for (const char* nothing : {"{}", "true", "[]", R"({"type": "null"})", R"({"type": 7, "anyOf": 7})"})
    EXPECT_NE(kind_of(nothing), ValueKind::kString) << nothing;
}

TEST(ToolSchemas, AcceptsToolsOfAnyShape) {
  for (const char* tools : {"null", "7", "[]", "[7]", R"([{"function": 7}])", R"([{"function": {"name": 7}}])",
                            R"([{"function": {"name": "f", "parameters": {"properties": 7}}}])"}) {
    const ToolSchemas schemas(ordered_json::parse(tools));
    EXPECT_TRUE(schemas.may_name("f")) << tools;
    EXPECT_EQ(schemas.kind("f", "p"), ValueKind::kUnknown) << tools;
  }
  const ToolSchemas flat(ordered_json::parse(R"([{"type": "function", "name": "f"}])"));
  EXPECT_TRUE(flat.may_name("f"));
  EXPECT_FALSE(flat.may_name("g"));
}

}  // namespace
}  // namespace cairn::chat::tool_call
