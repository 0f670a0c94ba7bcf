// LFM2: a list of Python calls between special tokens.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/python_calls.h"

namespace cairn::chat::tool_call {
namespace lfm {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<PythonCalls>("<|tool_call_end|>"); }
constexpr BlockStart kBlockStarts[] = {{"<|tool_call_start|>", open}};

}  // namespace lfm

const ToolStyle styles::kLfm = {
    .format = ToolFormat::kLfm,
    .name = "lfm",
    .matches =
        [](std::string_view source) {
          return shows(source, "<|tool_call_start|>") || shows(source, "<|tool_list_start|>");
        },
    .block_starts = lfm::kBlockStarts,
    .syntax = {.block_open = "<|tool_call_start|>[",
               .name_close = "(",
               .separator = ", ",
               .block_close = "]<|tool_call_end|>",
               .form = ArgumentForm::kPython,
               .parameter = {.key_close = "="}},
};

}  // namespace cairn::chat::tool_call
