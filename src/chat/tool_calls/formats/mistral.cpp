// Mistral: [TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}], later [TOOL_CALLS]name[ARGS]{...}, for a while
// with [CALL_ID]id between name and arguments.
#include "chat/tool_calls/choice.h"
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"
#include "chat/tool_calls/marked_calls.h"

namespace cairn::chat::tool_call {
namespace mistral {

constexpr std::string_view kMarker = "[TOOL_CALLS]";
constexpr Field::End kNameEnds[] = {{"[ARGS]", -1}, {"[CALL_ID]", 1}};
constexpr Field::End kIdEnds[] = {{"[ARGS]", -1}};
constexpr Field kFields[] = {{FieldRole::kName, kNameEnds}, {FieldRole::kId, kIdEnds}};
constexpr MarkedStyle kNamed = {.call_open = kMarker, .fields = kFields};

std::unique_ptr<ToolCallParser> choose(char first) {
  if (first == '[' || first == '{') return std::make_unique<JsonCalls>(JsonStyle{.ids = true});
  return std::make_unique<MarkedCalls>(kNamed, true);
}

constexpr BlockStart kBlockStarts[] = {{kMarker, open_choice<choose>}};
constexpr int kIdBytes = 9;  // their templates refuse others

}  // namespace mistral

const ToolStyle styles::kMistral = {
    .format = ToolFormat::kMistral,
    .name = "mistral",
    .matches = [](std::string_view source) { return shows(source, mistral::kMarker) && shows(source, "[ARGS]"); },
    .block_starts = mistral::kBlockStarts,
    .syntax = {.call_open = "[TOOL_CALLS]", .name_close = "[ARGS]"},
    .gives_ids = true,
    .id_bytes = mistral::kIdBytes,
};

const ToolStyle styles::kMistralId = {
    .format = ToolFormat::kMistralId,
    .name = "mistral_id",
    .matches = [](std::string_view source) { return shows(source, mistral::kMarker) && shows(source, "[CALL_ID]"); },
    .block_starts = mistral::kBlockStarts,
    .syntax = {.call_open = "[TOOL_CALLS]", .name_close = "[CALL_ID]{id}[ARGS]"},
    .gives_ids = true,
    .id_bytes = mistral::kIdBytes,
};

const ToolStyle styles::kMistralList = {
    .format = ToolFormat::kMistralList,
    .name = "mistral_list",
    .matches = [](std::string_view source) { return shows(source, mistral::kMarker); },
    .block_starts = mistral::kBlockStarts,
    .syntax = {.block_open = "[TOOL_CALLS][",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]"},
    .gives_ids = true,
    .id_bytes = mistral::kIdBytes,
};

}  // namespace cairn::chat::tool_call
