// Test cases of formats that write a call as a JSON object, or as Python.
#include "chat/testing/output_parser_cases.h"

namespace cairn::chat {
namespace {

OutputCase hermes(std::string output, std::vector<std::string> lines) {
  return as(ToolFormat::kHermes, std::move(output), std::move(lines));
}

const std::vector<OutputCase> kJsonCases = {
    hermes("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\", \"days\": 3}}\n</tool_call>",
           {"get_weather{\"city\": \"Zürich\", \"days\": 3}"}),
    hermes("I will check.\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"now\","
           "\"arguments\":{}}</tool_call>\nDone.",
           {"C I will check.", "now{}", "now{}", "C Done."}),
    hermes("<think>Hm.</think>\n\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", {"R Hm.", "now{}"}),
    // Other orders of keys and other shapes.
    hermes("<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>", {"f{\"a\": 1}"}),
    hermes("<tool_call>{\"name\": \"f\"}</tool_call>", {"f{}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", {"f{}"}),
    hermes("<tool_call>{\"id\": 7, \"name\": \"f\", \"x\": [1, {}], \"parameters\": {\"a\": []}}</tool_call>",
           {"f{\"a\": []}"}),
    hermes(
        "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}</tool_call>",
        {"f{\"a\": 1}"}),
    hermes(R"(<tool_call>{"name": "f", "arguments": "{\"a\": \"q\\\"\\u00e9\\ud83d\\ude00\"}"}</tool_call>)",
           {R"(f{"a": "q\"\u00e9\ud83d\ude00"})"}),
    hermes(R"(<tool_call>{"name": "f", "arguments": ""}</tool_call>)", {"f{}"}),
    hermes("<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>",
           {"f{}", "g{}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}</tool_call>",
           {"f{}", "g{}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>",
           {"f{\"a\": \"</tool_call>\"}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {'a': True, \"b\": \"x\ny\",}}</tool_call>",
           {"f{\"a\": true, \"b\": \"x\\ny\"}"}),
    // Too many braces, too few, or no end tag.
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}}</tool_call>Done.", {"f{\"a\": 1}", "C Done."}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}</tool_call>Done.", {"f{\"a\": 1}", "C Done."}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}<b>",
           {"f{}", "g{}", "C <b>"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}}\n<tool_call>{\"name\": \"g\", \"arguments\": {}}",
           {"f{}", "g{}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}} and more", {"f{}", "C and more"}),
    // Output that is cut off.
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"Zür", {"f{\"a\": \"Zür~"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 2", {"f{\"a\": [1, 2~"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\":", {"f{\"a\": 1, \"b\":~"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\\u00", {"f{\"a\": \"x\\u00~"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\nDone.",
           {"f{\"a\": \"</tool_call>\\nDone.~"}),
    hermes("<tool_call>{\"name\": \"f\", \"argu", {"f{~"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1", {"f{\"a\": 1~"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}", {"f{\"a\": 1}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool", {"f{}"}),
    hermes("<tool_call>{\"name\": \"f", {"C <tool_call>{\"name\": \"f"}),
    hermes("<tool_call>", {"C <tool_call>"}),
    // Malformed calls: an error before the header is complete makes all of it text; after it the call is broken, and
    // has what the model wrote up to its end.
    hermes("<tool_call>no JSON</tool_call>", {"C <tool_call>no JSON</tool_call>"}),
    hermes("<tool_call>{\"name\": 7}</tool_call>", {"C <tool_call>{\"name\": 7}</tool_call>"}),
    hermes("<tool_call>{\"arguments\": {}}</tool_call>", {"C <tool_call>{\"arguments\": {}}</tool_call>"}),
    hermes("<tool_call>{\"name\": \"two words\"}</tool_call>", {"C <tool_call>{\"name\": \"two words\"}</tool_call>"}),
    hermes("<tool_call><tool_call>{\"name\": \"f\"}</tool_call>", {"C <tool_call>", "f{}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": Zürich}}</tool_call>", {"f{\"a\": Zürich}}!"}),
    hermes("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"ls\", broken}\n</tool_call>\nDone.",
           {"f{\"a\": \"ls\", broken}\n!", "C Done."}),
    hermes(
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": 2 3}}</tool_call>\n<tool_call>{\"name\": \"g\", "
        "\"arguments\": {}}</tool_call>",
        {"f{\"a\": 1, \"b\": 2 3}}!", "g{}"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 2\n</tool_call>", {"f{\"a\": [1, 2\n!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1} and so on, to the end.",
           {"f{\"a\": 1}", "C and so on, to the end."}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\" 1} and so on</tool", {"f{\"a\" 1} and so on</tool!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>", {"f5}!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"I'm here", {"f\"I'm here!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1} x\"}</tool_call>", {"f{\"a\": 1} x\"}!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": nothing}</tool_call>", {"fnothing}!"}),
    hermes("<tool_call>{\"name\": \"f\", say}</tool_call>", {"f, say}!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1\"}</tool_call>", {"f{\"a\": 1\"}!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\" 1}\"}</tool_call>", {"f{\"a\" 1}\"}!"}),
    hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n{\"x\"}</tool_call>",
           {"f{\"a\": 1}", "C }\n{\"x\"}</tool_call>"}),
    // The formats of GLM and Qwen3-Coder are understood where Hermes was expected.
    hermes("<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
           {"get_weather{\"days\": 3}"}),
    hermes("<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
           {"get_weather{\"days\": 3}"}),

    as(ToolFormat::kLlama, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bern\"}}",
       {"get_weather{\"city\": \"Bern\"}"}),
    as(ToolFormat::kLlama, "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\"}",
       {"now{}", "now{}"}),
    as(ToolFormat::kLlama, "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", {"now{}"}),
    as(ToolFormat::kLlama, "<|python_tag|>brave_search.call(query=\"a b\")", {"brave_search{\"query\":\"a b\"}"}),
    as(ToolFormat::kLlama, "<|python_tag|>import os\nprint(1)", {"C <|python_tag|>import os\nprint(1)"}),
    as(ToolFormat::kLlama, "{\"name\": \"Bern\", \"population\": 130000}",
       {"C {\"name\": \"Bern\", \"population\": 130000}"}),
    as(ToolFormat::kLlama, "{\"answer\": 42}", {"C {\"answer\": 42}"}),
    as(ToolFormat::kLlama, "As JSON: {\"name\": \"now\"}", {"C As JSON: {\"name\": \"now\"}"}),
    as(ToolFormat::kLlama, "{\"name\": \"now\", \"param", {"now{~"}),

    as(ToolFormat::kMistralList,
       "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, {\"id\": \"123456789\", "
       "\"name\": \"g\", \"arguments\": {}}]",
       {"f{\"a\": 1}", "g#123456789{}"}),
    as(ToolFormat::kMistralList, "Well.[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1",
       {"C Well.", "f{\"a\": 1~"}),
    as(ToolFormat::kMistralList, "[TOOL_CALLS] [] none", {"C [TOOL_CALLS] [] none"}),
    as(ToolFormat::kGranite, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}] Done.",
       {"f{\"a\": 1}", "C Done."}),
    as(ToolFormat::kGranite, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}, {\"na", {"f{}", "C }, {\"na"}),
    as(ToolFormat::kCommandR,
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}},\n    "
       "{\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": {}}\n]<|END_ACTION|>",
       {"f{\"a\": 1}", "g{}"}),
    as(ToolFormat::kCommandRPlus, "Action: ```json\n[\n  {\"tool_name\": \"f\", \"parameters\": {}}\n]```", {"f{}"}),
    as(ToolFormat::kCommandRPlus, "Action:\n```json\n[{\"tool_name\": \"f\", \"parameters\": {}}]", {"f{}"}),
    as(ToolFormat::kApertus, "<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>",
       {"f{\"a\": 1}", "g{}"}),
    as(ToolFormat::kApriel, "<tool_calls>[{\"name\": \"f\", \"arguments\": {}, \"id\": \"x\"}]</tool_calls>", {"f{}"}),
    as(ToolFormat::kMiniMaxM1, "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\"}\n</tool_calls>",
       {"f{}", "g{}"}),
    as(ToolFormat::kNemotron, "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>", {"f{}"}),
    as(ToolFormat::kFireFunction, " functools[{\"name\": \"f\", \"arguments\": {}}]", {"f{}"}),
    as(ToolFormat::kFireFunction, "Python's functools is a module.", {"C Python's functools is a module."}),
    as(ToolFormat::kGigaChat, "<|function_call|>{\"name\": \"f\", \"arguments\": {}}", {"f{}"}),
    as(ToolFormat::kGigaChatRole, "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
       {"f{}"}),
    as(ToolFormat::kGemmaFence, "```json\n{\"name\": \"now\", \"parameters\": {}}\n```", {"now{}"}),
    as(ToolFormat::kGemmaFence, "```json\n{\"answer\": 42}\n```", {"C ```json\n{\"answer\": 42}\n```"}),
    as(ToolFormat::kGemmaFence, "Sure.\n```tool_code\nprint(get_weather(city='Bern', days=3))\nnow()\n```\nDone.",
       {"C Sure.", "get_weather{\"city\":\"Bern\", \"days\":3}", "now{}", "C Done."}),
    as(ToolFormat::kGemmaFence, "```tool_code\nx = 3\n```", {"C ```tool_code\nx = 3\n```"}),
    as(ToolFormat::kLfm, "<|tool_call_start|>[f(a='x', b=[1, {'c': None}]), g()]<|tool_call_end|>Done.",
       {"f{\"a\":\"x\", \"b\":[1, {\"c\": null}]}", "g{}", "C Done."}),
    as(ToolFormat::kLfm, "<|tool_call_start|>[f(a='x", {"f{\"a\":\"x~"}),
    as(ToolFormat::kLfm, "<|tool_call_start|>[f('x')]<|tool_call_end|>", {"f'x')]!"}),
};

}  // namespace

std::vector<OutputCase> json_cases() { return kJsonCases; }

}  // namespace cairn::chat
