#include "chat/output/reasoning.h"

#include <algorithm>

#include "chat/tool_calls/characters.h"

namespace cairn::chat {
namespace {

using std::string_view;

bool shows(string_view source, string_view text) { return source.find(text) != string_view::npos; }

constexpr string_view kGraniteOpen[] = {"<response>"};
constexpr string_view kGraniteClose[] = {"</response>"};
constexpr string_view kCohereOpen[] = {"<|START_RESPONSE|>", "<|START_TEXT|>"};
constexpr string_view kCohereClose[] = {"<|END_RESPONSE|>", "<|END_TEXT|>"};
constexpr string_view kAprielClose[] = {"[END FINAL RESPONSE]"};
constexpr string_view kKimiOpen[] = {"<|open|>response<|sep|>"};
constexpr string_view kKimiClose[] = {"<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"};
constexpr string_view kSolarOpen[] = {"<|begin|>assistant", "<|content|>"};
constexpr string_view kSolarClose[] = {"<|calls|>"};

constexpr ReasoningStyle kStyles[] = {
    {ReasoningFormat::kGemma, "gemma", [](string_view source) { return shows(source, "<|channel>"); },
     "<|channel>thought", "<channel|>"},
    {ReasoningFormat::kMistral, "mistral", [](string_view source) { return shows(source, "[THINK]"); }, "[THINK]",
     "[/THINK]"},
    {ReasoningFormat::kCohere, "cohere", [](string_view source) { return shows(source, "<|START_THINKING|>"); },
     "<|START_THINKING|>", "<|END_THINKING|>", kCohereOpen, kCohereClose},
    {ReasoningFormat::kKimiK3, "kimi_k3",
     [](string_view source) { return shows(source, "<|open|>") && shows(source, "<|sep|>"); }, "<|open|>think<|sep|>",
     "<|close|>think<|sep|>", kKimiOpen, kKimiClose},
    {ReasoningFormat::kSeed, "seed", [](string_view source) { return shows(source, "seed:think"); }, "<seed:think>",
     "</seed:think>"},
    {ReasoningFormat::kHy, "hy", [](string_view source) { return shows(source, ":opensource"); }, "<think:opensource>",
     "</think:opensource>"},
    {ReasoningFormat::kMiniMaxM3, "minimax_m3", [](string_view source) { return shows(source, "<mm:think>"); },
     "<mm:think>", "</mm:think>"},
    {ReasoningFormat::kApertus, "apertus", [](string_view source) { return shows(source, "<|inner_prefix|>"); },
     "<|inner_prefix|>", "<|inner_suffix|>"},
    {ReasoningFormat::kSolar, "solar", [](string_view source) { return shows(source, "<|think|>"); }, "<|think|>",
     "<|end|>", kSolarOpen, kSolarClose},
    {ReasoningFormat::kApriel,
     "apriel",
     [](string_view source) { return shows(source, "[BEGIN FINAL RESPONSE]"); },
     "Here are my reasoning steps:",
     "[BEGIN FINAL RESPONSE]",
     {},
     kAprielClose},
    {ReasoningFormat::kGranitePhrases, "granite_phrases",
     [](string_view source) { return shows(source, "Here is my thought process:"); },
     "Here is my thought process:", "Here is my response:"},
    {ReasoningFormat::kGranite, "granite",
     [](string_view source) { return shows(source, "<think></think>") && shows(source, "<response></response>"); },
     "<think>", "</think>", kGraniteOpen, kGraniteClose},
    {ReasoningFormat::kThink, "think", [](string_view) { return true; }, "<think>", "</think>"},
};

}  // namespace

std::span<const ReasoningStyle> reasoning_styles() { return kStyles; }

const ReasoningStyle* find_style(ReasoningFormat format) {
  const auto* found = std::ranges::find(kStyles, format, &ReasoningStyle::format);
  return found == std::end(kStyles) ? nullptr : found;
}

PromptEnd prompt_end(const ReasoningStyle& style, string_view prompt) {
  while (!prompt.empty() && tool_call::is_space(prompt.back())) prompt.remove_suffix(1);
  if (prompt.ends_with(style.open)) return PromptEnd::kInThinking;
  if (prompt.ends_with(style.close)) return PromptEnd::kAfterThinking;
  const bool in_answer =
      std::ranges::any_of(style.answer_open, [&](string_view open) { return prompt.ends_with(open); });
  return in_answer ? PromptEnd::kInAnswer : PromptEnd::kElsewhere;
}

}  // namespace cairn::chat
