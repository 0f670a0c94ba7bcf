// MiniMax M2: <invoke name="..."><parameter name="...">value</parameter></invoke> in a block.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace minimax_m2 {

constexpr TagEnd kNameEnds[] = {{"\">", TagNext::kParameters}};
constexpr TagEnd kValueEnds[] = {{"</parameter>", TagNext::kParameters},
                                 {"</invoke>\n</minimax:tool_call>", TagNext::kBlockEnd},
                                 {"</invoke></minimax:tool_call>", TagNext::kBlockEnd}};
constexpr TagStyle kStyle = {.call_open = "<invoke name=\"",
                             .name_ends = kNameEnds,
                             .parameter_open = "<parameter name=\"",
                             .key_end = "\">",
                             .value_ends = kValueEnds,
                             .call_close = "</invoke>",
                             .block_close = "</minimax:tool_call>"};
std::unique_ptr<ToolCallParser> open() { return std::make_unique<TaggedCalls>(kStyle, false); }
constexpr BlockStart kBlockStarts[] = {{"<minimax:tool_call>", open}};

}  // namespace minimax_m2

const ToolStyle styles::kMiniMaxM2 = {
    .format = ToolFormat::kMiniMaxM2,
    .name = "minimax_m2",
    .matches = [](std::string_view source) { return shows(source, "<minimax:tool_call>"); },
    .block_starts = minimax_m2::kBlockStarts,
    .syntax = {.block_open = "<minimax:tool_call>\n",
               .call_open = "<invoke name=\"",
               .name_close = "\">\n",
               .call_close = "</invoke>",
               .separator = "\n",
               .block_close = "\n</minimax:tool_call>",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<parameter name=\"",
                             .key_close = "\">",
                             .close = "</parameter>",
                             .ends = minimax_m2::kValueEnds}},
};

}  // namespace cairn::chat::tool_call
