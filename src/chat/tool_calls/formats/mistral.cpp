// Mistral: [TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}], later [TOOL_CALLS]name[ARGS]{...}, for a while
// with [CALL_ID]id between name and arguments.
#include "chat/tool_calls/choice.h"
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"
#include "chat/tool_calls/marked_calls.h"

namespace cairn::tool_call {
namespace {

constexpr std::string_view kMarker = "[TOOL_CALLS]";
constexpr Field::End kNameEnds[] = {{"[ARGS]", -1}, {"[CALL_ID]", 1}};
constexpr Field::End kIdEnds[] = {{"[ARGS]", -1}};
constexpr Field kFields[] = {{FieldRole::kName, kNameEnds}, {FieldRole::kId, kIdEnds}};
constexpr MarkedStyle kNamed = {.call_open = kMarker, .fields = kFields};

std::unique_ptr<CallReader> choose(char first) {
  if (first == '[' || first == '{') return std::make_unique<JsonCalls>(JsonStyle{.ids = true});
  return std::make_unique<MarkedCalls>(kNamed, true);
}

constexpr Opener kOpeners[] = {{kMarker, open_choice<choose>}};
constexpr int kIdBytes = 9;  // Mistral's templates refuse other lengths

}  // namespace

const ToolStyle styles::kMistral = {
    .format = ToolFormat::kMistral,
    .name = "mistral",
    .recognise = [](std::string_view source) { return shows(source, kMarker) && shows(source, "[ARGS]"); },
    .openers = kOpeners,
    .syntax = {.call_open = "[TOOL_CALLS]", .name_close = "[ARGS]"},
    .gives_ids = true,
    .id_bytes = kIdBytes,
};

const ToolStyle styles::kMistralId = {
    .format = ToolFormat::kMistralId,
    .name = "mistral_id",
    .recognise = [](std::string_view source) { return shows(source, kMarker) && shows(source, "[CALL_ID]"); },
    .openers = kOpeners,
    .syntax = {.call_open = "[TOOL_CALLS]", .name_close = "[CALL_ID]{id}[ARGS]"},
    .gives_ids = true,
    .id_bytes = kIdBytes,
};

const ToolStyle styles::kMistralList = {
    .format = ToolFormat::kMistralList,
    .name = "mistral_list",
    .recognise = [](std::string_view source) { return shows(source, kMarker); },
    .openers = kOpeners,
    .syntax = {.block_open = "[TOOL_CALLS][",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]"},
    .gives_ids = true,
    .id_bytes = kIdBytes,
};

}  // namespace cairn::tool_call
