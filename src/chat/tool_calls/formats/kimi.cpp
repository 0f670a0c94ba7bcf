// Kimi K2: ids that hold the name, and JSON, between special tokens. K3: tags for everything.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/marked_calls.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace kimi {

constexpr std::string_view kBlockOpen = "<|tool_calls_section_begin|>";
constexpr std::string_view kCallOpen = "<|tool_call_begin|>";
constexpr Field::End kIdEnds[] = {{"<|tool_call_argument_begin|>", -1}};
constexpr Field kFields[] = {{FieldRole::kKimiId, kIdEnds}};
constexpr MarkedStyle kK2 = {.call_open = kCallOpen,
                             .fields = kFields,
                             .call_close = "<|tool_call_end|>",
                             .block_close = "<|tool_calls_section_end|>"};

std::unique_ptr<ToolCallParser> open_block() { return std::make_unique<MarkedCalls>(kK2, false); }
std::unique_ptr<ToolCallParser> open_call() { return std::make_unique<MarkedCalls>(kK2, true); }
constexpr BlockStart kBlockStarts[] = {{kBlockOpen, open_block}, {kCallOpen, open_call}};

constexpr TagEnd kK3NameEnds[] = {{"\"", TagNext::kAttributes}};
constexpr TagEnd kK3ValueEnds[] = {{"<|close|>argument<|sep|>", TagNext::kParameters},
                                   {"<|close|>call<|sep|>", TagNext::kCallEnd}};
constexpr TagStyle kK3 = {.call_open = "<|open|>call tool=\"",
                          .name_ends = kK3NameEnds,
                          .parameter_open = "<|open|>argument key=\"",
                          .key_end = "\"",
                          .attributes_end = "<|sep|>",
                          .value_ends = kK3ValueEnds,
                          .call_close = "<|close|>call<|sep|>",
                          .block_close = "<|close|>tools<|sep|>"};
std::unique_ptr<ToolCallParser> open_k3() { return std::make_unique<TaggedCalls>(kK3, false); }
constexpr BlockStart kK3BlockStarts[] = {{"<|open|>tools<|sep|>", open_k3}};

}  // namespace kimi

const ToolStyle styles::kKimi = {
    .format = ToolFormat::kKimi,
    .name = "kimi",
    .matches = [](std::string_view source) { return shows(source, kimi::kBlockOpen); },
    .block_starts = kimi::kBlockStarts,
    .syntax = {.block_open = kimi::kBlockOpen,
               .call_open = "<|tool_call_begin|>functions.",
               .name_close = ":{index}<|tool_call_argument_begin|>",
               .call_close = "<|tool_call_end|>",
               .block_close = "<|tool_calls_section_end|>"},
    .gives_ids = true,
};

const ToolStyle styles::kKimiK3 = {
    .format = ToolFormat::kKimiK3,
    .name = "kimi_k3",
    .matches = [](std::string_view source) { return shows(source, "<|open|>") && shows(source, "<|sep|>"); },
    .block_starts = kimi::kK3BlockStarts,
    .syntax = {.block_open = "<|open|>tools<|sep|>",
               .call_open = "<|open|>call tool=\"",
               .name_close = "\" index=\"{index}\"<|sep|>",
               .call_close = "<|close|>call<|sep|>",
               .block_close = "<|close|>tools<|sep|>",
               .form = ArgumentForm::kTags,
               .parameter = {.open = "<|open|>argument key=\"",
                             .key_close = "\" type=\"string\"<|sep|>",
                             .other_key_close = "\" type=\"{type}\"<|sep|>",
                             .close = "<|close|>argument<|sep|>",
                             .ends = kimi::kK3ValueEnds}},
};

}  // namespace cairn::chat::tool_call
