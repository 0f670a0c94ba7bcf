// Gemma 4 has tokens for calls: <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>. Gemma 2 and 3 have none, and
// their templates take no tools: asked for calls, they write Python or JSON in a fence.
#include "chat/tool_calls/choice.h"
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"
#include "chat/tool_calls/marked_calls.h"
#include "chat/tool_calls/python_calls.h"

namespace cairn::chat::tool_call {
namespace gemma {

constexpr Field::End kNameEnds[] = {{"<|\"|>", -1}};
constexpr Field kFields[] = {{FieldRole::kName, kNameEnds}};  // the brace ends the name
constexpr MarkedStyle kStyle = {.call_open = "call:",
                                .fields = kFields,
                                .block_close = "<tool_call|>",
                                .dialect = Dialect::kGemma,
                                .brace_ends_name = true};
std::unique_ptr<ToolCallParser> open_call() { return std::make_unique<MarkedCalls>(kStyle, false); }
constexpr BlockStart kBlockStarts[] = {{"<|tool_call>", open_call}};

constexpr std::string_view kFence = "```";
std::unique_ptr<ToolCallParser> choose(char first) {
  if (first == '{') return std::make_unique<JsonCalls>(JsonStyle{.closer = kFence});
  return std::make_unique<PythonCalls>(kFence);
}
std::unique_ptr<ToolCallParser> open_json() { return std::make_unique<JsonCalls>(JsonStyle{.closer = kFence}); }
std::unique_ptr<ToolCallParser> open_bare() { return std::make_unique<JsonCalls>(JsonStyle{}); }
constexpr BlockStart kFenceBlockStarts[] = {{"```tool_code", open_choice<choose>, true},
                                            {"```tool_call", open_choice<choose>, true},
                                            {"```json", open_json, true}};
constexpr BlockStart kBare = {"{", open_bare, true};

}  // namespace gemma

const ToolStyle styles::kGemma = {
    .format = ToolFormat::kGemma,
    .name = "gemma",
    .matches = [](std::string_view source) { return shows(source, "<|tool_call>call:"); },
    .block_starts = gemma::kBlockStarts,
    .syntax = {.block_open = "<|tool_call>call:",
               .name_close = "{",
               .separator = "<tool_call|><|tool_call>call:",
               .block_close = "<tool_call|>",
               .form = ArgumentForm::kGemma},
};

const ToolStyle styles::kGemmaFence = {
    .format = ToolFormat::kGemmaFence,
    .name = "gemma_fence",
    .matches = [](std::string_view source) { return shows(source, "<start_of_turn>"); },
    .block_starts = gemma::kFenceBlockStarts,
    .bare = &gemma::kBare,
    .syntax = {.block_open = "```json\n",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"parameters\": ",
               .call_close = "}",
               .separator = "\n",
               .block_close = "\n```"},
};

}  // namespace cairn::chat::tool_call
