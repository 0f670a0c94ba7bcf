// Solar Open: id, name and JSON between special tokens.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/marked_calls.h"

namespace cairn::chat::tool_call {
namespace solar {

constexpr std::string_view kCallOpen = "<|tool_call:begin|>";
constexpr Field::End kIdEnds[] = {{"<|tool_call:name|>", 1}};
constexpr Field::End kNameEnds[] = {{"<|tool_call:args|>", -1}};
constexpr Field kFields[] = {{FieldRole::kId, kIdEnds}, {FieldRole::kName, kNameEnds}};
constexpr MarkedStyle kStyle = {.call_open = kCallOpen, .fields = kFields, .call_close = "<|tool_call:end|>"};
std::unique_ptr<ToolCallParser> open_block() { return std::make_unique<MarkedCalls>(kStyle, false); }
std::unique_ptr<ToolCallParser> open_call() { return std::make_unique<MarkedCalls>(kStyle, true); }
constexpr BlockStart kBlockStarts[] = {{"<|tool_calls|>", open_block}, {kCallOpen, open_call}};

}  // namespace solar

const ToolStyle styles::kSolar = {
    .format = ToolFormat::kSolar,
    .name = "solar",
    .matches = [](std::string_view source) { return shows(source, solar::kCallOpen); },
    .block_starts = solar::kBlockStarts,
    .syntax = {.block_open = "<|tool_calls|>",
               .call_open = "<|tool_call:begin|>{id}<|tool_call:name|>",
               .name_close = "<|tool_call:args|>",
               .call_close = "<|tool_call:end|>"},
    .gives_ids = true,
};

}  // namespace cairn::chat::tool_call
