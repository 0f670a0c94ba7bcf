// GLM 4.5 and those after it: <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>. Hunyuan's
// tags have a suffix, and blocks of their own.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace glm {

constexpr TagEnd kGlmNameEnds[] = {
    {"\n", TagNext::kParameters}, {"<arg_key>", TagNext::kKey}, {"</tool_call>", TagNext::kCallEnd}};
constexpr TagEnd kGlmValueEnds[] = {
    {"</arg_value>", TagNext::kParameters}, {"<arg_key>", TagNext::kKey}, {"</tool_call>", TagNext::kCallEnd}};
constexpr TagStyle kGlmStyle = {.call_open = "",
                                .name_ends = kGlmNameEnds,
                                .parameter_open = "<arg_key>",
                                .key_end = "</arg_key>",
                                .value_open = "<arg_value>",
                                .value_ends = kGlmValueEnds,
                                .call_close = "</tool_call>"};

constexpr TagEnd kHyNameEnds[] = {{"<tool_sep:opensource>", TagNext::kParameters}};
constexpr TagEnd kHyValueEnds[] = {{"</arg_value:opensource>", TagNext::kParameters},
                                   {"</tool_call:opensource>", TagNext::kCallEnd}};
constexpr TagStyle kHyStyle = {.call_open = "<tool_call:opensource>",
                               .name_ends = kHyNameEnds,
                               .parameter_open = "<arg_key:opensource>",
                               .key_end = "</arg_key:opensource>",
                               .value_open = "<arg_value:opensource>",
                               .value_ends = kHyValueEnds,
                               .call_close = "</tool_call:opensource>",
                               .block_close = "</tool_calls:opensource>"};

std::unique_ptr<ToolCallParser> open_hy() { return std::make_unique<TaggedCalls>(kHyStyle, false); }

constexpr BlockStart kGlmBlockStarts[] = {{"<tool_call>", open_tool_call}};
constexpr BlockStart kHyBlockStarts[] = {{"<tool_calls:opensource>", open_hy}};

}  // namespace glm

std::unique_ptr<ToolCallParser> open_glm() { return std::make_unique<TaggedCalls>(glm::kGlmStyle, true); }

const ToolStyle styles::kGlm = {
    .format = ToolFormat::kGlm,
    .name = "glm",
    .matches = [](std::string_view source) { return shows(source, "<arg_key>"); },
    .block_starts = glm::kGlmBlockStarts,
    .syntax = {.call_open = "<tool_call>",
               .name_close = "\n",
               .call_close = "</tool_call>",
               .separator = "\n",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<arg_key>",
                             .key_close = "</arg_key>\n<arg_value>",
                             .close = "</arg_value>",
                             .ends = glm::kGlmValueEnds}},
};

const ToolStyle styles::kHy = {
    .format = ToolFormat::kHy,
    .name = "hy",
    .matches = [](std::string_view source) { return shows(source, ":opensource") && shows(source, "<tool_sep"); },
    .block_starts = glm::kHyBlockStarts,
    .syntax = {.block_open = "<tool_calls:opensource>\n",
               .call_open = "<tool_call:opensource>",
               .name_close = "<tool_sep:opensource>\n",
               .call_close = "</tool_call:opensource>",
               .separator = "\n",
               .block_close = "\n</tool_calls:opensource>",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<arg_key:opensource>",
                             .key_close = "</arg_key:opensource>\n<arg_value:opensource>",
                             .close = "</arg_value:opensource>",
                             .ends = glm::kHyValueEnds}},
};

}  // namespace cairn::chat::tool_call
