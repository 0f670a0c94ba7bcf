// Fuzzes chat templates with a conversation that the first byte varies: no crash, no endless run, bounded memory, and
// the conversation's text is marked as foreign whatever the template does with it.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "jinja/jinja.h"

namespace {

using nlohmann::ordered_json;

constexpr char kForeignByte = '\xE6';  // the first byte of 東

ordered_json conversation() {
  return ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be terse."},
      {"role": "user", "content": "Wie spät ist es in 東京? 👋"},
      {"role": "assistant", "content": null, "reasoning_content": "think",
       "tool_calls": [{"id": "call00001", "type": "function",
                       "function": {"name": "clock", "arguments": {"city": "東京", "n": 1.5, "deep": [[1], {"a": null}]}}}]},
      {"role": "tool", "tool_call_id": "call00001", "name": "clock", "content": "{\"time\": 12}"},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    "tools": [{"type": "function", "function": {"name": "clock", "description": "<b>d</b>",
               "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
    "n": -7, "f": 2.5, "big": 18446744073709551615, "s": "abc", "l": [3, 1, 2], "d": {"k": 1}})");
}

// Variants of the conversation, one for each bit.
ordered_json varied(uint8_t mode) {
  ordered_json variables = conversation();
  if (mode & 1) variables["tools"] = nullptr;
  if (mode & 2) variables["messages"].erase(0);
  if (mode & 4) variables["messages"][1]["content"] = std::string(300, 'x') + "\xff\xfe \xc3";
  if (mode & 8) variables["messages"] = "not a list";
  if (mode & 16) variables["add_generation_prompt"] = false;
  if (mode & 32) variables.erase("bos_token");
  if (mode & 64) variables["s"] = ordered_json::array({ordered_json::object(), -9223372036854775807 - 1});
  return variables;
}

// Checks that ranges are well-formed, and that a character which the template cannot have written is in one of them.
void check_origin(std::string_view source, const cairn::jinja::Rendering& made) {
  size_t before = 0;
  for (const cairn::ByteRange& range : made.foreign) {
    if (range.begin >= range.end || range.end > made.text.size()) __builtin_trap();
    if (range.begin <= before && before > 0) __builtin_trap();
    before = range.end;
  }
  if (source.find(kForeignByte) != std::string_view::npos || source.find('\\') != std::string_view::npos) return;
  auto range = made.foreign.begin();
  for (size_t i = 0; i < made.text.size(); ++i) {
    if (made.text[i] != kForeignByte) continue;
    while (range != made.foreign.end() && range->end <= i) ++range;
    if (range == made.foreign.end() || range->begin > i) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto parsed = cairn::jinja::JinjaTemplate::parse(source);
  if (!parsed.has_value()) return 0;
  constexpr cairn::jinja::JinjaLimits kLimits{
      .steps_max = 20'000, .depth_max = 100, .output_bytes_max = 1 << 18, .memory_bytes_max = 1 << 20};
  const auto made = parsed->render(varied(data[0]), cairn::jinja::kNothingOwn, 1768480496, kLimits);
  if (!made.has_value()) return 0;
  if (made->text.size() > static_cast<size_t>(kLimits.output_bytes_max)) __builtin_trap();
  check_origin(source, *made);
  return 0;
}
