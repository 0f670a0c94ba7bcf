// DSML, DeepSeek V3.2 and V4: <｜DSML｜invoke name="..."> with a <｜DSML｜parameter name="..." string="true|false"> for
// each argument. The two differ in the block's name only, and both names are read for either. Models sometimes leave
// out parts of the mark; a block is read in the spelling with which it began.
#include <array>
#include <cstddef>

#include "chat/tool_calls/dsml_escape.h"
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/tagged_calls.h"

namespace cairn::chat::tool_call {
namespace dsml {

// A string literal as a template argument.
template <size_t kSize>
struct Literal {
  char bytes[kSize]{};
  constexpr Literal(const char (&text)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) bytes[i] = text[i];
  }
};

// The concatenation of `before`, the mark and `after`.
template <Literal before, Literal mark, Literal after>
struct Tag {
  static constexpr auto kBytes = [] {
    std::array<char, sizeof(before.bytes) + sizeof(mark.bytes) + sizeof(after.bytes) - 3> joined{};
    size_t at = 0;
    const auto append = [&]<size_t kSize>(const Literal<kSize>& text) {
      for (size_t i = 0; i + 1 < kSize; ++i) joined[at++] = text.bytes[i];
    };
    append(before);
    append(mark);
    append(after);
    return joined;
  }();
  static constexpr std::string_view kText{kBytes.data(), kBytes.size()};
};

template <const TagStyle& style, bool in_call>
std::unique_ptr<ToolCallParser> open() {
  return std::make_unique<TaggedCalls>(style, in_call);
}

template <Literal mark>
struct Spelling {
  static constexpr std::string_view kInvoke = Tag<"<", mark, "invoke name=\"">::kText;
  static constexpr std::string_view kInvokeClose = Tag<"</", mark, "invoke>">::kText;
  static constexpr std::string_view kParameter = Tag<"<", mark, "parameter name=\"">::kText;
  static constexpr std::string_view kParameterClose = Tag<"</", mark, "parameter>">::kText;
  static constexpr std::string_view kV32Open = Tag<"<", mark, "function_calls>">::kText;
  static constexpr std::string_view kV32Close = Tag<"</", mark, "function_calls>">::kText;
  static constexpr std::string_view kV4Open = Tag<"<", mark, "tool_calls>">::kText;
  static constexpr std::string_view kV4Close = Tag<"</", mark, "tool_calls>">::kText;

  static constexpr TagEnd kNameEnds[] = {{"\">", TagNext::kParameters}};
  static constexpr TagEnd kValueEnds[] = {{kParameterClose, TagNext::kParameters},
                                          {kParameter, TagNext::kKey},
                                          {kInvokeClose, TagNext::kCallEnd},
                                          {kV32Close, TagNext::kBlockEnd},
                                          {kV4Close, TagNext::kBlockEnd}};
  static constexpr TagStyle style_with(std::string_view block_close) {
    return {.call_open = kInvoke,
            .name_ends = kNameEnds,
            .parameter_open = kParameter,
            .key_end = "\"",
            .attributes_end = ">",
            .value_ends = kValueEnds,
            .call_close = kInvokeClose,
            .block_close = block_close,
            .dsml = true};
  }
  static constexpr TagStyle kV32 = style_with(kV32Close);
  static constexpr TagStyle kV4 = style_with(kV4Close);
};

using Whole = Spelling<"｜DSML｜">;
using Half = Spelling<"DSML｜">;
using None = Spelling<"">;
static_assert(Tag<"", "｜DSML｜", "">::kText == kDsmlMark);

// Without the mark it may be any XML.
constexpr BlockStart kBlockStarts[] = {
    {Whole::kV32Open, open<Whole::kV32, false>},     {Whole::kV4Open, open<Whole::kV4, false>},
    {Whole::kInvoke, open<Whole::kV4, true>},        {Half::kV32Open, open<Half::kV32, false>},
    {Half::kV4Open, open<Half::kV4, false>},         {Half::kInvoke, open<Half::kV4, true>},
    {None::kV32Open, open<None::kV32, false>, true}, {None::kV4Open, open<None::kV4, false>, true},
    {None::kInvoke, open<None::kV4, true>, true},
};

constexpr CallSyntax syntax_with(std::string_view block_open, std::string_view block_close) {
  return {.block_open = block_open,
          .call_open = Whole::kInvoke,
          .name_close = "\">\n",
          .call_close = Whole::kInvokeClose,
          .separator = "\n",
          .block_close = block_close,
          .form = ArgumentForm::kTags,
          .parameter = {.open = Whole::kParameter,
                        .key_close = "\" string=\"true\">",
                        .other_key_close = "\" string=\"false\">",
                        .close = Whole::kParameterClose,
                        .ends = Whole::kValueEnds}};
}

}  // namespace dsml

const ToolStyle styles::kDsmlV32 = {
    .format = ToolFormat::kDsmlV32,
    .name = "dsml_v32",
    .matches = [](std::string_view source) { return shows(source, kDsmlMark) && shows(source, "function_calls"); },
    .block_starts = dsml::kBlockStarts,
    .syntax = dsml::syntax_with("<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>"),
    .syntax_mark = kDsmlMark,
};

const ToolStyle styles::kDsmlV4 = {
    .format = ToolFormat::kDsmlV4,
    .name = "dsml_v4",
    .matches = [](std::string_view source) { return shows(source, kDsmlMark); },
    .block_starts = dsml::kBlockStarts,
    .syntax = dsml::syntax_with("<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"),
    .syntax_mark = kDsmlMark,
};

}  // namespace cairn::chat::tool_call
