#include "api/params/answer_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;
using Kind = grammar::GrammarSource::Kind;

struct Read {
  chat::AnswerForm form;
  Result<void> result;
};

Read read(std::string_view text) {
  const ordered_json body = ordered_json::parse(text);
  RequestContext context;
  RequestFields fields(context, body);
  Read out;
  read_answer_form(fields, out.form);
  out.result = fields.finish();
  return out;
}

TEST(AnswerForm, EveryFieldThatAsksForAFormIsRead) {
  struct Case {
    std::string_view body;
    Kind kind;
    std::string_view field;
  };
  for (
      const Case& one : std::initializer_list<Case>{
          {R"({"response_format": {"type": "json_object"}})", Kind::kJsonObject, "response_format"},
          {R"({"response_format": {"type": "json_object", "schema": {"type": "array"}}})", Kind::kJsonSchema,
           "response_format.schema"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": null, "schema": {}}}})",
           Kind::kJsonSchema, "response_format.json_schema.schema"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"type": "json_schema", "schema": {}}}})",
           Kind::kJsonSchema, "response_format.json_schema.schema"},
          {R"({"response_format": {"type": "json_schema", "schema": {}}})", Kind::kJsonSchema,
           "response_format.schema"},
          {R"({"grammar": "root ::= \"x\""})", Kind::kGbnf, "grammar"},
          {R"({"json_schema": {}})", Kind::kJsonSchema, "json_schema"},
          {R"({"structured_outputs": {"json": "{\"type\": \"string\"}"}})", Kind::kJsonSchema,
           "structured_outputs.json"},
          {R"({"structured_outputs": {"regex": "a+"}})", Kind::kRegex, "structured_outputs.regex"},
          {R"({"structured_outputs": {"choice": ["a", "b"]}})", Kind::kChoice, "structured_outputs.choice"},
          {R"({"structured_outputs": {"grammar": "root ::= \"x\""}})", Kind::kGbnf, "structured_outputs.grammar"},
          {R"({"structured_outputs": {"grammar": "start: \"x\""}})", Kind::kLark, "structured_outputs.grammar"},
          {R"({"structured_outputs": {"json_object": true}})", Kind::kJsonObject, "structured_outputs.json_object"},
          {R"({"guided_json": {}})", Kind::kJsonSchema, "guided_json"},
          {R"({"guided_regex": "a"})", Kind::kRegex, "guided_regex"},
          {R"({"guided_choice": ["a"]})", Kind::kChoice, "guided_choice"},
          {R"({"guided_grammar": "root ::= \"x\""})", Kind::kGbnf, "guided_grammar"},
          {R"({"regex": "a"})", Kind::kRegex, "regex"},
          {R"({"ebnf": "root ::= \"x\""})", Kind::kGbnf, "ebnf"},
          {R"({"ebnf": "start: \"x\""})", Kind::kLark, "ebnf"},
          {R"({"grammar_string": "root ::= \"x\""})", Kind::kGbnf, "grammar_string"},
          {R"({"regex_pattern": "a"})", Kind::kRegex, "regex_pattern"},
          {R"({"json_mode": true})", Kind::kJsonObject, "json_mode"},
          {R"({"guided_grammar": "start: \"x\"", "structured_outputs": {"grammar": "start: \"x\""}})", Kind::kLark,
           "structured_outputs.grammar"},
          {R"({"guided_json": {"type": "null"}, "response_format": {"type": "json_object", "schema": {"type": "null"}}})",
           Kind::kJsonSchema, "response_format.schema"},
          {R"({"response_format": {"type": "json_object", "schema": {}}})", Kind::kJsonObject, "response_format"}}) {
    const Read found = read(one.body);
    ASSERT_TRUE(found.result) << one.body << found.result.error().message;
    ASSERT_TRUE(found.form) << one.body;
    EXPECT_EQ(found.form->kind, one.kind) << one.body;
    EXPECT_EQ(found.form->field, one.field);
  }
}

TEST(AnswerForm, EmptyFieldsAndTextAskForNone) {
  for (const std::string_view body :
       {"{}", R"({"response_format": {"type": "text"}})", R"({"grammar": ""})", R"({"grammar": null})",
        R"({"json_schema": null})", R"({"guided_choice": []})", R"({"structured_outputs": {}})",
        R"({"json_mode": false})", R"({"text": {"format": {"type": "text"}}})", R"({"format": ""})",
        R"({"output_format": null})", R"({"response_format": {"type": "text", "strict": true}})"}) {
    const Read found = read(body);
    EXPECT_TRUE(found.result && !found.form) << body;
  }
}

TEST(AnswerForm, WhatIsNoFormOrASecondOneIsRefusedByName) {
  struct Case {
    std::string_view body;
    std::string_view field;
  };
  for (
      const Case& one : std::initializer_list<Case>{
          {R"({"response_format": {"type": "xml"}})", "response_format.type"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}})",
           "response_format.json_schema.schema"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "type": "object"}}})",
           "response_format.json_schema.schema"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": null}}})",
           "response_format.json_schema.schema"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": ""}}})",
           "response_format.json_schema.schema"},
          {R"({"response_format": {"type": "json_schema"}})", "response_format.schema"},
          {R"({"response_format": {"type": "text", "schema": {"type": "null"}}})", "response_format.schema"},
          {R"({"response_format": {"type": "json_object", "json_schema": {"schema": {}}}})",
           "response_format.json_schema"},
          {R"({"json_schema": {"name": "n", "schema": {"type": "null"}}})", "json_schema"},
          {R"({"guided_json": {"city": {"type": "string"}}})", "guided_json"},
          {R"({"response_format": {"type": "object", "schema": {"type": "null"}}})", "response_format.type"},
          {R"({"response_format": {"type": "object", "properties": {"a": {}}}})", "response_format.type"},
          {R"({"response_format": {"type": "json_object", "properties": {"a": {}}}})", "response_format.properties"},
          {R"({"response_format": {"type": "json_object", "value": {"type": "null"}}})", "response_format.value"},
          {R"({"response_format": {"type": "json_object", "grammar": "root ::= \"x\""}})", "response_format.grammar"},
          {R"({"response_format": {"type": "json_object", "schema": {"type": "object", "schema": {"type": "null"}}}})",
           "response_format.schema"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "properties": {"a": {}}}}})",
           "response_format.json_schema.properties"},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}, "schema": {"type": "null"}}})",
           "response_format.schema"},
          {R"({"json_schema": {"type": "object", "schema": {"type": "null"}}})", "json_schema"},
          {R"({"structured_outputs": {"json_schema": {"type": "null"}}})", "structured_outputs.json_schema"},
          {R"({"text": {"format": {"type": "json_object"}}})", "text"},
          {R"({"format": "json"})", "format"},
          {R"({"format": {"type": "null"}})", "format"},
          {R"({"output_format": {"type": "json_schema", "schema": {}}})", "output_format"},
          {R"({"output_config": {"format": {"type": "json_schema", "schema": {}}}})", "output_config"},
          {R"({"schema": {"type": "null"}})", "schema"},
          {R"({"response_schema": {"type": "null"}})", "response_schema"},
          {R"({"grammar": 5})", "grammar"},
          {R"({"json_schema": "{"})", "json_schema"},
          {R"({"guided_choice": [5]})", "guided_choice"},
          {R"({"structured_outputs": {"structural_tag": {"a": 1}}})", "structured_outputs.structural_tag"},
          {R"({"grammar_lazy": true})", "grammar_lazy"},
          {R"({"grammar": "root ::= \"x\"", "grammar_lazy": true})", "grammar_triggers"},
          {R"({"grammar": "root ::= \"x\"", "grammar_triggers": [{"type": 1, "value": "x"}]})", "grammar_triggers"},
          {R"({"grammar": "root ::= \"x\"", "grammar_lazy": true, "grammar_triggers": [{"type": 2, "value": "x"}]})",
           "grammar_triggers"},
          {R"({"grammar": "root ::= \"x\"", "regex": "x"})", "regex"}}) {
    const Read found = read(one.body);
    ASSERT_FALSE(found.result) << one.body;
    EXPECT_EQ(found.result.error().at, one.field) << found.result.error().message;
  }
}

}  // namespace
}  // namespace cairn::api
