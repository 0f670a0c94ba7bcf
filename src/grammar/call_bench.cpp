// Time to compile the grammar of calls of many tools: 500, each with a schema of 2 KB, all held to.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "grammar/call_grammar.h"
#include "grammar/matcher.h"

namespace cairn::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTools = 500;

// Parameters as programs declare them: texts, numbers with bounds, choices, lists, objects within, most with a
// description. No two tools have the same.
Json schema_of(size_t tool) {
  const std::string about =
      "What the caller wants it to be; where it is missing, the service takes what fits the other parameters best";
  const auto name = [&](std::string_view word) { return std::string(word) + "_" + std::to_string(tool); };
  Json properties = {
      {name("path"), {{"type", "string"}, {"description", about}, {"minLength", 1}, {"maxLength", 200 + tool}}},
      {name("limit"), {{"type", "integer"}, {"description", about}, {"minimum", 1}, {"maximum", 100 + tool}}},
      {name("ratio"), {{"type", "number"}, {"description", about}, {"exclusiveMinimum", 0}, {"maximum", 1}}},
      {name("mode"), {{"enum", {"read", "write", "append", name("mode")}}, {"description", about}}},
      {name("when"), {{"type", "string"}, {"format", "date-time"}, {"description", about}}},
      {name("id"), {{"type", "string"}, {"pattern", "^[A-Z]{2}-[0-9]{1,6}$"}, {"description", about}}},
      {name("tags"), {{"type", "array"}, {"items", {{"type", "string"}}}, {"maxItems", 10}, {"description", about}}},
      {name("note"), {{"anyOf", {{{"type", "string"}}, {{"type", "null"}}}}, {"description", about}}},
  };
  properties[name("filter")] = {
      {"type", "object"},
      {"description", about},
      {"properties",
       {{name("field"), {{"type", "string"}, {"description", about}}},
        {"operator", {{"enum", {"=", "<", ">", "contains"}}, {"description", about}}},
        {"value", {{"type", {"string", "number", "boolean"}}, {"description", about}}}}},
      {"required", {name("field"), "operator", "value"}},
      {"additionalProperties", false},
  };
  return {{"type", "object"},
          {"properties", properties},
          {"required", {name("path"), name("mode")}},
          {"additionalProperties", false}};
}

std::vector<CalledTool> tools() {
  std::vector<CalledTool> result;
  for (size_t i = 0; i < kTools; ++i)
    result.push_back({.name = "tool_" + std::to_string(i), .schema = Json::parse(schema_of(i).dump()), .strict = true});
  return result;
}

void compile_many(benchmark::State& state, const CallForm& form, const std::string& call) {
  const std::vector<CalledTool> called = tools();
  size_t bytes = 0;
  for (const CalledTool& tool : called) bytes += tool.schema.dump().size();
  state.counters["schema_bytes"] = static_cast<double>(bytes) / kTools;
  for (auto _ : state) {
    const auto grammar = compile_calls({form}, called);
    if (!grammar) return state.SkipWithError(grammar.error().message.c_str());
    Matcher matcher(*grammar);
    if (matcher.push(call) != call.size()) return state.SkipWithError("the call is not in the grammar");
  }
}

CallForm object_form() {
  return {.opens = {"<tool_call>\n"},
          .call_open = R"({"name": ")",
          .name_closes = {R"(", "arguments": )"},
          .call_close = "}",
          .close = "\n</tool_call>"};
}

CallForm parameter_form() {
  CallForm form{.opens = {"<tool_call>\n"},
                .call_open = "<function=",
                .name_closes = {">\n"},
                .call_close = "</function>",
                .close = "\n</tool_call>"};
  form.arguments = CallForm::Arguments::kParameters;
  form.parameter = {.open = "<parameter=", .key_close = ">\n", .close = "\n</parameter>\n"};
  return form;
}

void CompileObjects(benchmark::State& state) {
  compile_many(state, object_form(),
               R"(<tool_call>
{"name": "tool_7", "arguments": {"path_7": "a", "mode_7": "read"}}
</tool_call>)");
}
BENCHMARK(CompileObjects)->Unit(benchmark::kMillisecond)->MinTime(3);

void CompileParameters(benchmark::State& state) {
  compile_many(state, parameter_form(),
               "<tool_call>\n<function=tool_7>\n<parameter=path_7>\na\n</parameter>\n<parameter=mode_7>\nread\n"
               "</parameter>\n</function>\n</tool_call>");
}
BENCHMARK(CompileParameters)->Unit(benchmark::kMillisecond)->MinTime(3);

}  // namespace
}  // namespace cairn::grammar
