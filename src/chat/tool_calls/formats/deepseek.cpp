// DeepSeek V3 and R1: the kind, the name and a fenced block of JSON between special tokens; V3.1: name and JSON only.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/marked_calls.h"

namespace cairn::chat::tool_call {
namespace deepseek {

constexpr std::string_view kBlockOpen = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kBlockClose = "<｜tool▁calls▁end｜>";
constexpr std::string_view kCallOpen = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallClose = "<｜tool▁call▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kFence = "```";

constexpr Field::End kKindEnds[] = {{kSeparator, 1}};
constexpr Field::End kFencedNameEnds[] = {{"```json", -1}};
constexpr Field kV3Fields[] = {{FieldRole::kSkipped, kKindEnds}, {FieldRole::kName, kFencedNameEnds}};
constexpr MarkedStyle kV3Style = {
    .call_open = kCallOpen, .fields = kV3Fields, .call_close = kCallClose, .block_close = kBlockClose, .fence = kFence};

constexpr Field::End kNameEnds[] = {{kSeparator, -1}};
constexpr Field kV31Fields[] = {{FieldRole::kName, kNameEnds}};
constexpr MarkedStyle kV31Style = {.call_open = kCallOpen,
                                   .fields = kV31Fields,
                                   .call_close = kCallClose,
                                   .block_close = kBlockClose,
                                   .fence = kFence};

template <const MarkedStyle& style, bool in_call>
std::unique_ptr<ToolCallParser> open() {
  return std::make_unique<MarkedCalls>(style, in_call);
}

// A call may come without the block's own marker.
constexpr BlockStart kV3BlockStarts[] = {{kBlockOpen, open<kV3Style, false>}, {kCallOpen, open<kV3Style, true>}};
constexpr BlockStart kV31BlockStarts[] = {{kBlockOpen, open<kV31Style, false>}, {kCallOpen, open<kV31Style, true>}};

}  // namespace deepseek

const ToolStyle styles::kDeepSeekV3 = {
    .format = ToolFormat::kDeepSeekV3,
    .name = "deepseek_v3",
    .matches = [](std::string_view source) { return shows(source, deepseek::kBlockOpen) && shows(source, "```json"); },
    .block_starts = deepseek::kV3BlockStarts,
    .syntax = {.block_open = deepseek::kBlockOpen,
               .call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
               .name_close = "\n```json\n",
               .call_close = "\n```<｜tool▁call▁end｜>",
               .separator = "\n",
               .block_close = deepseek::kBlockClose},
};

const ToolStyle styles::kDeepSeekV31 = {
    .format = ToolFormat::kDeepSeekV31,
    .name = "deepseek_v31",
    .matches = [](std::string_view source) { return shows(source, deepseek::kBlockOpen); },
    .block_starts = deepseek::kV31BlockStarts,
    .syntax = {.block_open = deepseek::kBlockOpen,
               .call_open = deepseek::kCallOpen,
               .name_close = deepseek::kSeparator,
               .call_close = deepseek::kCallClose,
               .block_close = deepseek::kBlockClose},
};

}  // namespace cairn::chat::tool_call
