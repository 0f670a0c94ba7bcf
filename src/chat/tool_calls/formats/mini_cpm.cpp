// MiniCPM 5: <function name="..."><param name="...">value</param></function>, values with markup as CDATA.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace mini_cpm {

constexpr TagEnd kNameEnds[] = {{"\">", TagNext::kParameters}};
constexpr TagEnd kValueEnds[] = {{"]]></param>", TagNext::kParameters},
                                 {"</param>", TagNext::kParameters},
                                 {"<param name=\"", TagNext::kKey},
                                 {"</function>", TagNext::kCallEnd}};
// What no argument's text contains, in CDATA or not.
constexpr TagEnd kTextEnds[] = {{"</param>"}, {"<param name=\""}, {"</function>"}, {"<![CDATA["}, {"]]>"}};
constexpr TagStyle kStyle = {.call_open = "<function name=\"",
                             .name_ends = kNameEnds,
                             .parameter_open = "<param name=\"",
                             .key_end = "\">",
                             .value_ends = kValueEnds,
                             .call_close = "</function>",
                             .cdata = true};
std::unique_ptr<ToolCallParser> open() { return std::make_unique<TaggedCalls>(kStyle, true); }
constexpr BlockStart kBlockStarts[] = {{"<function name=\"", open}};

}  // namespace mini_cpm

const ToolStyle styles::kMiniCpm = {
    .format = ToolFormat::kMiniCpm,
    .name = "mini_cpm",
    .matches = [](std::string_view source) { return shows(source, "<function name=\""); },
    .block_starts = mini_cpm::kBlockStarts,
    .syntax = {.call_open = "<function name=\"",
               .name_close = "\">",
               .call_close = "</function>",
               .separator = "\n",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<param name=\"",
                             .key_close = "\">",
                             .close = "</param>",
                             .ends = mini_cpm::kTextEnds,
                             .text_open = "<![CDATA[",
                             .text_close = "]]>"}},
};

}  // namespace cairn::chat::tool_call
