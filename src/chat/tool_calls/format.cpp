#include "chat/tool_calls/format.h"

#include <algorithm>
#include <array>

#include "chat/tool_calls/formats/formats.h"

namespace cairn::chat::tool_call {
namespace {

// Formats with markers of their own come before those that share common ones.
constexpr std::array kStyles = {
    &styles::kHarmony,      &styles::kDsmlV32,
    &styles::kDsmlV4,       &styles::kDeepSeekV3,
    &styles::kDeepSeekV31,  &styles::kKimi,
    &styles::kKimiK3,       &styles::kMistralId,
    &styles::kMistral,      &styles::kMistralList,
    &styles::kCommandR,     &styles::kCommandRPlus,
    &styles::kGemma,        &styles::kSolar,
    &styles::kHy,           &styles::kSeed,
    &styles::kGlm,          &styles::kMiniMaxM2,
    &styles::kMiniCpm,      &styles::kQwenCoder,
    &styles::kFunctionary,  &styles::kFunctionaryRecipient,
    &styles::kApertus,      &styles::kNemotron,
    &styles::kLfm,          &styles::kGigaChat,
    &styles::kGigaChatRole, &styles::kFireFunction,
    &styles::kGranite,      &styles::kApriel,
    &styles::kMiniMaxM1,    &styles::kHermes,
    &styles::kLlama,        &styles::kGemmaFence,
};

void replace(std::string& text, std::string_view what, std::string_view with) {
  if (const size_t at = text.find(what); at != std::string::npos) text.replace(at, what.size(), with);
}

}  // namespace

std::span<const ToolStyle* const> tool_styles() { return kStyles; }

const ToolStyle* find_style(ToolFormat format) {
  const auto found = std::ranges::find(kStyles, format, &ToolStyle::format);
  return found == kStyles.end() ? nullptr : *found;
}

std::string forced_opening(const ToolStyle& style, std::string_view name, int index, std::string_view id) {
  const auto fill = [&](std::string_view pattern) {
    std::string text(pattern);
    replace(text, "{index}", std::to_string(index));
    replace(text, "{id}", id);
    return text;
  };
  std::string text(style.syntax.block_open);
  text += fill(style.syntax.call_open);
  if (name.empty()) return text;
  text += name;
  return text + fill(style.syntax.name_close);
}

}  // namespace cairn::chat::tool_call
