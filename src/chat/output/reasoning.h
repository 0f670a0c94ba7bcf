/// How models separate their thinking from their answer.
#pragma once

#include <span>
#include <string_view>

namespace cairn::chat {

enum class ReasoningFormat {
  kNone,  ///< no thinking is recognised
  kThink,
  kSeed,
  kHy,
  kMiniMaxM3,
  kMistral,
  kCohere,
  kGemma,
  kGranite,
  kGranitePhrases,
  kApertus,
  kApriel,
  kKimiK3,
  kSolar,
  kHarmony,
};

struct ReasoningStyle {
  ReasoningFormat format = ReasoningFormat::kNone;
  std::string_view name;
  bool (*matches)(std::string_view source);  ///< as ToolStyle::matches
  std::string_view open;
  std::string_view close;
  std::span<const std::string_view> answer_open{};   ///< may precede the answer, and is not part of it
  std::span<const std::string_view> answer_close{};  ///< may follow the answer, and is not part of it
};

/// All formats but kNone and kHarmony. The last of them, kThink, recognises every template: many models think in
/// <think> whether their template shows it or not.
std::span<const ReasoningStyle> reasoning_styles();
/// The style of a format; null for kNone and kHarmony.
const ReasoningStyle* find_style(ReasoningFormat format);

/// Where a prompt ends, by its last marker; whitespace after it is ignored.
enum class PromptEnd { kElsewhere, kInThinking, kAfterThinking, kInAnswer };
PromptEnd prompt_end(const ReasoningStyle& style, std::string_view prompt);

}  // namespace cairn::chat
