#include "chat/output/text_machine.h"

#include "chat/tool_calls/characters.h"

namespace cairn {
namespace {

using tool_call::CallReader;
using tool_call::is_space;
using tool_call::Opener;

// Text that turned out to be no call is searched for markers again up to this length, so that the time stays linear.
constexpr size_t kSearchedAgainMax = 512;

}  // namespace

std::vector<TextMachine::Marker> TextMachine::markers_of(const tool_call::ToolStyle* tools,
                                                         const ReasoningStyle* thinking) {
  std::vector<Marker> markers;
  if (tools != nullptr)
    for (const Opener& opener : tools->openers) markers.push_back({MarkerKind::kCalls, opener.text, &opener});
  if (thinking == nullptr) return markers;
  markers.push_back({MarkerKind::kThinkOpen, thinking->open, nullptr});
  markers.push_back({MarkerKind::kThinkClose, thinking->close, nullptr});
  for (const auto text : thinking->answer_open) markers.push_back({MarkerKind::kAnswerOpen, text, nullptr});
  for (const auto text : thinking->answer_close) markers.push_back({MarkerKind::kAnswerClose, text, nullptr});
  return markers;
}

TextMachine::TextMachine(tool_call::ToolSchemas schemas, const tool_call::ToolStyle* tools,
                         const ReasoningStyle* thinking, std::string_view prompt)
    : Machine(std::move(schemas)),
      markers_(markers_of(tools, thinking)),
      matcher_([this] {
        std::vector<std::string_view> texts;
        texts.reserve(markers_.size());
        for (const Marker& marker : markers_) texts.push_back(marker.text);
        return MarkerMatcher(texts);
      }()),
      bare_(tools == nullptr ? nullptr : tools->bare),
      syntax_mark_(tools == nullptr ? std::string_view() : tools->syntax_mark),
      wraps_answers_(thinking != nullptr && thinking->answer_open.empty()) {
  const PromptEnd end = thinking == nullptr ? PromptEnd::kElsewhere : prompt_end(*thinking, prompt);
  answer_is_wrapped_ = end == PromptEnd::kInAnswer;
  if (end != PromptEnd::kElsewhere)
    start_over(end == PromptEnd::kInThinking ? PartKind::kReasoning : PartKind::kContent);
  if (tools != nullptr && !tools->prompt_open.empty() && prompt.ends_with(tools->prompt_open)) {
    open_calls(tools->openers[0]);
    raw_.clear();
  }
}

void TextMachine::push(char byte) {
  if (reader_ != nullptr)
    push_call(byte);
  else
    push_text(byte);
}

bool TextMachine::in_syntax() const {
  if (syntax_mark_.empty()) return false;
  return reader_ != nullptr ? reader_->in_syntax() : matcher_.held().find(syntax_mark_) != std::string_view::npos;
}

void TextMachine::push_text(char byte) {
  if (bare_ != nullptr && at_start_ && text_kind_ == PartKind::kContent && matcher_.held().empty() &&
      byte == bare_->text[0]) {
    open_calls(*bare_);
    raw_.clear();
    return push_call(byte);
  }
  text_.clear();
  const int marker = matcher_.push(byte, text_);
  if (!text_.empty()) put(text_);
  if (marker >= 0) found(markers_[static_cast<size_t>(marker)]);
}

void TextMachine::put(std::string_view text) {
  for (const char byte : text) {
    if (is_space(byte)) {
      space_ += byte;
      if (space_.size() < kSpaceBytesMax) continue;
    } else {
      if (after_block_ && at_start_) space_.clear();
      at_start_ = false;
      space_ += byte;
    }
    if (text_kind_ == PartKind::kReasoning)
      parts_.reasoning(space_);
    else
      parts_.content(space_);
    space_.clear();
  }
}

void TextMachine::start_over(PartKind text_kind) {
  text_kind_ = text_kind;
  at_start_ = after_block_ = true;
  space_.clear();
}

void TextMachine::found(const Marker& marker) {
  const bool thinks = text_kind_ == PartKind::kReasoning;
  switch (marker.kind) {
    case MarkerKind::kThinkOpen:
      // Within an answer the marker is ordinary text.
      if (at_start_) return start_over(PartKind::kReasoning);
      break;
    case MarkerKind::kThinkClose:
      if (!thinks && !at_start_) break;
      answer_is_wrapped_ = wraps_answers_;
      return start_over(PartKind::kContent);
    case MarkerKind::kAnswerOpen:
      if (thinks || !at_start_) break;
      answer_is_wrapped_ = true;
      return start_over(PartKind::kContent);
    case MarkerKind::kAnswerClose:
      if (thinks || !(answer_is_wrapped_ || at_start_)) break;
      return start_over(PartKind::kContent);
    case MarkerKind::kCalls:
      return open_calls(*marker.opener);
  }
  put(marker.text);
}

void TextMachine::open_calls(const Opener& opener) {
  reader_ = opener.open();
  raw_ = opener.text;
  calls_begun_ = progress_ = false;
  // A model that reasons about calling something may write the marker without meaning it.
  parts_.require_known_names(opener.known_names_only || text_kind_ == PartKind::kReasoning);
}

void TextMachine::push_call(char byte) {
  if (progress_) raw_.clear();
  raw_ += byte;
  const CallReader::Step step = reader_->push(byte, parts_);
  progress_ = parts_.take_progress();
  calls_begun_ |= progress_;
  if (step == CallReader::Step::kBad || raw_.size() > kHeldBytesMax) return reject_calls();
  if (step == CallReader::Step::kMore) return;
  const std::string unread = step == CallReader::Step::kUnread ? raw_.substr(raw_.size() - reader_->unread()) : "";
  reader_.reset();
  start_over(PartKind::kContent);
  for (const char each : unread) push(each);
}

void TextMachine::reject_calls() {
  if (progress_) raw_.erase(0, raw_.size() - 1);
  if (parts_.call_open()) reader_->close_call(parts_, CallState::kBroken);
  reader_.reset();
  if (calls_begun_) start_over(PartKind::kContent);
  const std::string raw = std::exchange(raw_, {});
  // The first byte cannot open the same block again.
  const size_t certain = raw.size() > kSearchedAgainMax ? raw.size() : 1;
  put(std::string_view(raw).substr(0, certain));
  for (const char each : std::string_view(raw).substr(certain)) push(each);
}

void TextMachine::finish() {
  if (reader_ != nullptr) {
    // Unfinished input is closed, syntax between calls is dropped, and everything else is text.
    const bool is_text = !parts_.call_open() && !reader_->between_calls();
    if (parts_.call_open()) reader_->close_call(parts_, CallState::kRepaired);
    reader_.reset();
    if (calls_begun_) start_over(PartKind::kContent);
    if (is_text && !(progress_ && calls_begun_)) put(raw_);
  }
  put(matcher_.held());
  matcher_.clear();
  if (after_block_ && at_start_) space_.clear();
  if (text_kind_ == PartKind::kReasoning)
    parts_.reasoning(space_);
  else
    parts_.content(space_);
  space_.clear();
}

}  // namespace cairn
