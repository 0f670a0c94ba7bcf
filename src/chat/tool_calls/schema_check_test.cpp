#include "chat/tool_calls/schema_check.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::chat::tool_call {
namespace {

using nlohmann::ordered_json;

bool accepts(std::string_view schema, std::string_view value) {
  return schema_accepts(ordered_json::parse(schema), ordered_json::parse(value));
}

TEST(SchemaCheck, AcceptsWhatTheWordsAllow) {
  EXPECT_TRUE(accepts("{}", "5"));
  EXPECT_TRUE(accepts("true", "5"));
  EXPECT_TRUE(accepts(R"({"type": "integer"})", "5"));
  EXPECT_TRUE(accepts(R"({"type": "integer"})", "5.0"));
  EXPECT_TRUE(accepts(R"({"type": "number"})", "5"));
  EXPECT_TRUE(accepts(R"({"type": ["string", "null"]})", "null"));
  EXPECT_TRUE(accepts(R"({"type": "string", "nullable": true})", "null"));
  EXPECT_TRUE(accepts(R"({"enum": ["a", 1, null]})", "1"));
  EXPECT_TRUE(accepts(R"({"const": 2})", "2"));
  EXPECT_TRUE(
      accepts(R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})", R"(["a"])"));
  EXPECT_TRUE(accepts(R"({"allOf": [{"required": ["a"]}, {"required": ["b"]}]})", R"({"a": 1, "b": 2})"));
  EXPECT_TRUE(accepts(R"({"type": "object", "properties": {"a": {"type": "string"}}})", R"({"b": 1})"));
  EXPECT_TRUE(accepts(R"({"additionalProperties": {"type": "number"}})", R"({"b": 1})"));
  EXPECT_TRUE(accepts(R"({"patternProperties": {"^x": {}}, "additionalProperties": false})", R"({"x1": 1})"));
}

TEST(SchemaCheck, UnknownWordsAreNoReasonToRefuse) {
  EXPECT_TRUE(accepts(R"({"type": "file", "minLength": 9, "$ref": "#/nowhere", "format": "uri"})", R"("x")"));
  EXPECT_TRUE(accepts(R"({"type": 5, "enum": "x", "required": 3, "properties": [], "anyOf": {}, "allOf": 1})", "{}"));
}

TEST(SchemaCheck, RefusesWhatTheyDoNot) {
  EXPECT_FALSE(accepts("false", "5"));
  EXPECT_FALSE(accepts(R"({"type": "integer"})", "5.5"));
  EXPECT_FALSE(accepts(R"({"type": "integer"})", R"("5")"));
  EXPECT_FALSE(accepts(R"({"type": "string"})", "null"));
  EXPECT_FALSE(accepts(R"({"type": ["string", "null"]})", "{}"));
  EXPECT_FALSE(accepts(R"({"enum": ["a"]})", R"("b")"));
  EXPECT_FALSE(accepts(R"({"const": 2})", "3"));
  EXPECT_FALSE(accepts(R"({"oneOf": [{"type": "string"}, {"type": "null"}]})", "1"));
  EXPECT_FALSE(accepts(R"({"allOf": [{"required": ["a"]}, {"required": ["b"]}]})", R"({"a": 1})"));
  EXPECT_FALSE(accepts(R"({"required": ["a"]})", "{}"));
  EXPECT_FALSE(
      accepts(R"({"properties": {"a": {"properties": {"b": {"type": "array", "items": {"type": "boolean"}}}}}})",
              R"({"a": {"b": [true, 0]}})"));
  EXPECT_FALSE(accepts(R"({"properties": {"a": {}}, "additionalProperties": false})", R"({"a": 1, "b": 2})"));
  EXPECT_FALSE(accepts(R"({"additionalProperties": {"type": "number"}})", R"({"b": "1"})"));
}

}  // namespace
}  // namespace cairn::chat::tool_call
