// Functionary 3.1, and Llama 3 asked to write so: <function=name>{...}</function>
// 3.2: >>>name and a line with JSON; the name "all" begins the answer. The prompt has written the first >>>.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/marked_calls.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace functionary {

constexpr TagEnd kNameEnds[] = {{">", TagNext::kParameters}};
constexpr TagEnd kValueEnds[] = {{"</parameter>", TagNext::kParameters}};
constexpr TagStyle kStyle = {.call_open = "<function=",
                             .name_ends = kNameEnds,
                             .parameter_open = "<parameter=",
                             .key_end = ">",
                             .value_ends = kValueEnds,
                             .call_close = "</function>",
                             .padded = true};
std::unique_ptr<ToolCallParser> open() { return std::make_unique<TaggedCalls>(kStyle, true); }
constexpr BlockStart kBlockStarts[] = {{"<function=", open}};

constexpr std::string_view kRecipient = ">>>";
constexpr Field::End kRecipientEnds[] = {{"\n", -1}};
constexpr Field kRecipientFields[] = {{FieldRole::kName, kRecipientEnds}};
constexpr MarkedStyle kRecipientStyle = {.call_open = kRecipient, .fields = kRecipientFields, .content_name = "all"};
std::unique_ptr<ToolCallParser> open_recipient() { return std::make_unique<MarkedCalls>(kRecipientStyle, true); }
// Python's prompt looks the same.
constexpr BlockStart kRecipientBlockStarts[] = {{kRecipient, open_recipient, true}};

}  // namespace functionary

const ToolStyle styles::kFunctionary = {
    .format = ToolFormat::kFunctionary,
    .name = "functionary",
    .matches = [](std::string_view source) { return shows(source, "<function="); },
    .block_starts = functionary::kBlockStarts,
    .syntax = {.call_open = "<function=", .name_close = ">", .call_close = "</function>"},
};

const ToolStyle styles::kFunctionaryRecipient = {
    .format = ToolFormat::kFunctionaryRecipient,
    .name = "functionary_recipient",
    .matches = [](std::string_view source) { return shows(source, ">>>all"); },
    .block_starts = functionary::kRecipientBlockStarts,
    .prompt_open = functionary::kRecipient,
    .text_recipient = "all\n",
    .syntax = {.call_open = functionary::kRecipient, .name_close = "\n"},
};

}  // namespace cairn::chat::tool_call
