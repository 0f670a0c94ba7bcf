#include "chat/constraints/constraint_tables.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
namespace {

// Harmony addresses a message to a tool.
constexpr std::string_view kHarmonyCall = " to=";

std::shared_ptr<const sampling::TextBan> ban_of(const tokenizer::Tokenizer& tokenizer,
                                                const std::vector<std::string_view>& texts) {
  return texts.empty() ? nullptr : std::make_shared<const sampling::TextBan>(tokenizer, texts);
}

}  // namespace

std::shared_ptr<const sampling::TextBan> ConstraintTables::call_ban() {
  const std::lock_guard lock(mutex_);
  if (call_ban_) return *call_ban_;
  std::vector<std::string_view> texts;
  if (calls_ == ToolFormat::kHarmony) texts.push_back(kHarmonyCall);
  if (const auto* style = tool_call::find_style(calls_)) {
    for (const auto& block_start : style->block_starts)
      if (!block_start.known_names_only) texts.push_back(block_start.text);
  }
  return call_ban_.emplace(ban_of(tokenizer_, texts));
}

std::shared_ptr<const sampling::TextBan> ConstraintTables::call_starts() {
  const std::lock_guard lock(mutex_);
  if (call_starts_) return *call_starts_;
  std::vector<std::string_view> texts;
  if (const auto* style = tool_call::find_style(calls_)) {
    for (const tool_call::CallStart& start : tool_call::call_starts(*style)) texts.push_back(start.text);
  }
  return call_starts_.emplace(ban_of(tokenizer_, texts));
}

std::shared_ptr<const AnswerVocabulary> ConstraintTables::vocabulary() {
  const std::lock_guard lock(mutex_);
  if (vocabulary_ == nullptr) vocabulary_ = std::make_shared<const AnswerVocabulary>(tokenizer_);
  return vocabulary_;
}

std::shared_ptr<const sampling::TextBan> ConstraintTables::text_ban(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::ranges::unique(texts).begin(), texts.end());
  const auto kept = [&]() -> std::shared_ptr<const sampling::TextBan> {
    const auto found = std::ranges::find(text_bans_, texts, &KeptTextBan::texts);
    if (found == text_bans_.end()) return nullptr;
    std::rotate(found, found + 1, text_bans_.end());
    return text_bans_.back().ban;
  };
  {
    const std::lock_guard lock(mutex_);
    if (auto ban = kept()) return ban;
  }
  auto made = ban_of(tokenizer_, std::vector<std::string_view>(texts.begin(), texts.end()));
  const std::lock_guard lock(mutex_);
  if (auto ban = kept()) return ban;
  if (text_bans_.size() == kTextBansKept) text_bans_.erase(text_bans_.begin());
  text_bans_.push_back({std::move(texts), made});
  return made;
}

}  // namespace cairn::chat
