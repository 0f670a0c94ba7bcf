// DSML, DeepSeek V3.2 and V4: <｜DSML｜invoke name="..."> with a <｜DSML｜parameter name="..." string="true|false"> for
// each argument. The two differ in the block's name only, and both are read for either.
#include "prompt/tool_call/formats.h"
#include "prompt/tool_call/tagged_calls.h"

namespace cairn::tool_call {
namespace {

constexpr TagEnd kNameEnds[] = {{"\">", TagNext::kParameters}};
constexpr std::string_view kInvoke = "<｜DSML｜invoke name=\"";
constexpr std::string_view kInvokeClose = "</｜DSML｜invoke>";
constexpr std::string_view kParameter = "<｜DSML｜parameter name=\"";
constexpr std::string_view kV32Close = "</｜DSML｜function_calls>";
constexpr std::string_view kV4Close = "</｜DSML｜tool_calls>";
constexpr TagEnd kValueEnds[] = {{"</｜DSML｜parameter>", TagNext::kParameters},
                                 {kParameter, TagNext::kKey},
                                 {kInvokeClose, TagNext::kCallEnd},
                                 {kV32Close, TagNext::kBlockEnd},
                                 {kV4Close, TagNext::kBlockEnd}};

constexpr TagStyle style_with(std::string_view block_close) {
  return {.call_open = kInvoke,
          .name_ends = kNameEnds,
          .parameter_open = kParameter,
          .key_end = "\"",
          .attributes_end = ">",
          .value_ends = kValueEnds,
          .call_close = kInvokeClose,
          .block_close = block_close};
}
constexpr TagStyle kV32 = style_with(kV32Close);
constexpr TagStyle kV4 = style_with(kV4Close);

template <const TagStyle& style, bool in_call>
std::unique_ptr<CallReader> open() {
  return std::make_unique<TaggedCalls>(style, in_call);
}

constexpr std::string_view kV32Open = "<｜DSML｜function_calls>";
constexpr std::string_view kV4Open = "<｜DSML｜tool_calls>";
constexpr Opener kOpeners[] = {{kV32Open, open<kV32, false>}, {kV4Open, open<kV4, false>}, {kInvoke, open<kV4, true>}};

}  // namespace

const ToolStyle styles::kDsmlV32 = {
    .format = ToolFormat::kDsmlV32,
    .name = "dsml_v32",
    .recognise = [](std::string_view source) { return shows(source, "｜DSML｜") && shows(source, "function_calls"); },
    .openers = kOpeners,
    .syntax = {.block_open = "<｜DSML｜function_calls>\n",
               .call_open = kInvoke,
               .name_close = "\">\n",
               .call_close = kInvokeClose,
               .separator = "\n",
               .block_close = "\n</｜DSML｜function_calls>",
               .form = ArgumentForm::kTags},
};

const ToolStyle styles::kDsmlV4 = {
    .format = ToolFormat::kDsmlV4,
    .name = "dsml_v4",
    .recognise = [](std::string_view source) { return shows(source, "｜DSML｜"); },
    .openers = kOpeners,
    .syntax = {.block_open = "<｜DSML｜tool_calls>\n",
               .call_open = kInvoke,
               .name_close = "\">\n",
               .call_close = kInvokeClose,
               .separator = "\n",
               .block_close = "\n</｜DSML｜tool_calls>",
               .form = ArgumentForm::kTags},
};

}  // namespace cairn::tool_call
