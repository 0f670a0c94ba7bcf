// Qwen3-Coder and those after it: <tool_call><function=name><parameter=key>value</parameter></function></tool_call>.
// Seed-OSS has another block tag and no line ends around values.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace qwen_coder {

constexpr TagEnd kNameEnds[] = {{">", TagNext::kParameters}};
constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
// Qwen sometimes forgets closing tags, which is more likely than a value that contains one of the other texts.
constexpr TagEnd kQwenValueEnds[] = {{"</parameter>", TagNext::kParameters},
                                     {"\n<parameter=", TagNext::kKey},
                                     {"</function>\n</tool_call>", TagNext::kBlockEnd},
                                     {"</function></tool_call>", TagNext::kBlockEnd}};
constexpr TagStyle kQwenStyle = {.call_open = kFunction,
                                 .name_ends = kNameEnds,
                                 .parameter_open = "<parameter=",
                                 .key_end = ">",
                                 .value_ends = kQwenValueEnds,
                                 .call_close = kFunctionClose,
                                 .block_close = "</tool_call>",
                                 .padded = true};

constexpr TagEnd kSeedValueEnds[] = {{"</parameter>", TagNext::kParameters}};
constexpr TagStyle kSeedStyle = {.call_open = kFunction,
                                 .name_ends = kNameEnds,
                                 .parameter_open = "<parameter=",
                                 .key_end = ">",
                                 .value_ends = kSeedValueEnds,
                                 .call_close = kFunctionClose,
                                 .block_close = "</seed:tool_call>"};

std::unique_ptr<ToolCallParser> open_qwen_call() { return std::make_unique<TaggedCalls>(kQwenStyle, true); }
std::unique_ptr<ToolCallParser> open_seed() { return std::make_unique<TaggedCalls>(kSeedStyle, false); }

// The outer tag is what models leave out first.
constexpr BlockStart kQwenBlockStarts[] = {{"<tool_call>", open_tool_call}, {kFunction, open_qwen_call}};
constexpr BlockStart kSeedBlockStarts[] = {{"<seed:tool_call>", open_seed}};

}  // namespace qwen_coder

std::unique_ptr<ToolCallParser> open_qwen_block() {
  return std::make_unique<TaggedCalls>(qwen_coder::kQwenStyle, false);
}

const ToolStyle styles::kQwenCoder = {
    .format = ToolFormat::kQwenCoder,
    .name = "qwen_coder",
    .matches =
        [](std::string_view source) { return shows(source, qwen_coder::kFunction) && shows(source, "<parameter="); },
    .block_starts = qwen_coder::kQwenBlockStarts,
    .syntax = {.block_open = "<tool_call>\n",
               .call_open = qwen_coder::kFunction,
               .name_close = ">\n",
               .call_close = qwen_coder::kFunctionClose,
               .separator = "\n</tool_call>\n<tool_call>\n",
               .block_close = "\n</tool_call>",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<parameter=",
                             .key_close = ">\n",
                             .close = "\n</parameter>",
                             .ends = qwen_coder::kQwenValueEnds}},
};

const ToolStyle styles::kSeed = {
    .format = ToolFormat::kSeed,
    .name = "seed",
    .matches = [](std::string_view source) { return shows(source, "seed:tool_call"); },
    .block_starts = qwen_coder::kSeedBlockStarts,
    .syntax = {.block_open = "<seed:tool_call>\n",
               .call_open = qwen_coder::kFunction,
               .name_close = ">\n",
               .call_close = qwen_coder::kFunctionClose,
               .separator = "\n</seed:tool_call>\n<seed:tool_call>\n",
               .block_close = "\n</seed:tool_call>",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<parameter=",
                             .key_close = ">",
                             .close = "</parameter>",
                             .ends = qwen_coder::kSeedValueEnds}},
};

}  // namespace cairn::chat::tool_call
