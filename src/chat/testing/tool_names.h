/// For tests: names of tools that OpenAI would refuse, those that a format of calls has a use for, and the longest.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cairn::chat {

inline std::vector<std::string> odd_tool_names() {
  auto names = nlohmann::json::parse(R"json([
    "a b", "{{7*7}}", "x[ARGS]y", "a(b", "a)b", "a,b", "[x]", "{n:1}", "a{b", "get:1", "get:0", "ns/tool", "天气", "é", "😀",
    "a'b", "a.b", "a|b", "a=b", "a&b", "a#b", "a;b", "$x", "*", "a\u00A0b", " a", "a ", "get ", "a json", "get json",
    "a```json", "x.call", "a.b(c)", "print x", "functions.x", "to=x", "x to=y", "print", "all", "1st", "-x", "_", "name",
    "id", "call", "function", "arguments", "parameters", "null", "get2"])json")
                   .get<std::vector<std::string>>();
  names.emplace_back(64, 'x');
  names.emplace_back(256, 'x');
  return names;
}

}  // namespace cairn::chat
