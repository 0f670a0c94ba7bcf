#include "grammar/json_schema/keyword_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_schema/json_schema.h"
#include "grammar/matcher.h"

namespace cairn::grammar {
namespace {

struct KeywordExample {
  std::string_view schema;
  std::string_view accepted;
  std::string_view refused;  // empty: the keyword says nothing
};

// One for each row of the table, by its first keyword.
const std::map<std::string_view, KeywordExample>& examples() {
  static const std::map<std::string_view, KeywordExample> all{
      {"type", {R"({"type":"null"})", "null", "1"}},
      {"enum", {R"({"enum":[1,"a"]})", R"("a")", "2"}},
      {"const", {R"({"const":[1]})", "[1]", "[2]"}},
      {"minimum", {R"({"minimum":3})", "3", "2.9"}},
      {"multipleOf", {R"({"multipleOf":3})", "6", "7"}},
      {"minLength", {R"({"minLength":2})", R"("ab")", R"("a")"}},
      {"pattern", {R"({"pattern":"a$"})", R"("ba")", R"("ab")"}},
      {"format", {R"({"format":"date"})", R"("2026-11-27")", R"("2026-11-31")"}},
      {"items", {R"({"items":{"type":"null"}})", "[null]", "[1]"}},
      {"prefixItems", {R"({"prefixItems":[{"type":"null"}]})", "[null,1]", "[1]"}},
      {"additionalItems",
       {R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":false})", "[1]",
        "[1,1]"}},
      {"minItems", {R"({"minItems":1})", "[1]", "[]"}},
      {"uniqueItems", {R"({"items":{"type":"string"},"uniqueItems":true})", R"(["a","b"])", R"(["a","a"])"}},
      {"contains", {R"({"contains":{"type":"null"}})", "[1,null]", "[1]"}},
      {"minContains", {R"({"contains":{"type":"null"},"minContains":2})", "[null,null]", "[null]"}},
      {"properties", {R"({"properties":{"a":{"type":"null"}}})", R"({"a":null})", R"({"a":1})"}},
      {"patternProperties", {R"({"patternProperties":{"^a":{"type":"null"}}})", R"({"ab":null})", R"({"ab":1})"}},
      {"additionalProperties", {R"({"additionalProperties":false})", "{}", R"({"a":1})"}},
      {"propertyNames", {R"({"propertyNames":{"maxLength":1}})", R"({"a":1})", R"({"ab":1})"}},
      {"required", {R"({"required":["a"]})", R"({"a":1})", "{}"}},
      {"minProperties", {R"({"minProperties":1})", R"({"a":1})", "{}"}},
      {"dependencies",
       {R"({"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}})", R"({"a":1,"b":1})",
        R"({"a":1})"}},
      {"dependentRequired", {R"({"dependentRequired":{"a":["b"]}})", R"({"a":1,"b":1})", R"({"a":1})"}},
      {"allOf", {R"({"allOf":[{"minimum":1},{"maximum":2}]})", "1", "3"}},
      {"oneOf", {R"({"oneOf":[{"minimum":1},{"maximum":2}]})", "3", "1"}},
      {"not", {R"({"not":{"type":"null"}})", "1", "null"}},
      {"if", {R"({"if":{"type":"number"},"then":{"minimum":1}})", "1", "0"}},
      {"unevaluatedProperties",
       {R"({"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false})", R"({"a":1})", R"({"b":1})"}},
      {"$ref", {R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}})", "null", "1"}},
      {"$id", {R"({"$ref":"#here","$defs":{"a":{"$anchor":"here","type":"null"}}})", "null", "1"}},
      {"$dynamicRef",
       {R"({"$dynamicRef":"#here","$defs":{"a":{"$dynamicAnchor":"here","type":"null"}}})", "null", "1"}},
      {"title", {R"({"title":"t","description":"d","x-unknown":1})", "1", ""}},
  };
  return all;
}

TEST(KeywordTable, EachRowHoldsAsItsExampleSays) {
  for (const KeywordNote& note : keyword_table()) {
    const std::string_view first = note.keywords.substr(0, note.keywords.find(','));
    const auto example = examples().find(first);
    ASSERT_TRUE(example != examples().end()) << first;
    const auto grammar = compile_json_schema(nlohmann::ordered_json::parse(example->second.schema), {});
    ASSERT_TRUE(grammar.has_value()) << first << " " << grammar.error().message;
    Matcher matcher(*grammar);
    EXPECT_TRUE(matcher.push(example->second.accepted) == example->second.accepted.size() && matcher.may_end())
        << first;
    if (example->second.refused.empty()) continue;
    matcher.rewind(0);
    EXPECT_FALSE(matcher.push(example->second.refused) == example->second.refused.size() && matcher.may_end()) << first;
  }
  EXPECT_EQ(examples().size(), keyword_table().size());
}

}  // namespace
}  // namespace cairn::grammar
