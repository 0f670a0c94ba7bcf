#include "chat/output/marker_parser.h"

#include <algorithm>

#include "chat/tool_calls/broken_call.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat {
namespace {

using tool_call::BlockStart;
using tool_call::is_space;
using tool_call::ToolCallParser;

// Text that turned out to be no call is searched for markers again up to this length, so that the time stays linear.
constexpr size_t kSearchedAgainMax = 512;

}  // namespace

std::vector<MarkerParser::Marker> MarkerParser::markers_of(const tool_call::ToolStyle* tools,
                                                           const ReasoningStyle* thinking) {
  std::vector<Marker> markers;
  if (tools != nullptr)
    for (const BlockStart& block_start : tools->block_starts)
      markers.push_back({MarkerKind::kCalls, block_start.text, &block_start});
  if (thinking == nullptr) return markers;
  markers.push_back({MarkerKind::kThinkOpen, thinking->open, nullptr});
  markers.push_back({MarkerKind::kThinkClose, thinking->close, nullptr});
  for (const auto text : thinking->answer_open) markers.push_back({MarkerKind::kAnswerOpen, text, nullptr});
  for (const auto text : thinking->answer_close) markers.push_back({MarkerKind::kAnswerClose, text, nullptr});
  return markers;
}

MarkerParser::MarkerParser(tool_call::ToolSchemas schemas, const tool_call::ToolStyle* tools,
                           const ReasoningStyle* thinking, std::string_view prompt)
    : StreamParser(std::move(schemas)),
      markers_(markers_of(tools, thinking)),
      matcher_([this] {
        std::vector<std::string_view> texts;
        texts.reserve(markers_.size());
        for (const Marker& marker : markers_) texts.push_back(marker.text);
        return MarkerMatcher(texts);
      }()),
      tools_(tools),
      bare_(tools == nullptr ? nullptr : tools->bare),
      syntax_mark_(tools == nullptr ? std::string_view() : tools->syntax_mark),
      wraps_answers_(thinking != nullptr && thinking->answer_open.empty()) {
  const PromptEnd end = thinking == nullptr ? PromptEnd::kElsewhere : prompt_end(*thinking, prompt);
  answer_is_wrapped_ = end == PromptEnd::kInAnswer;
  if (end != PromptEnd::kElsewhere)
    start_over(end == PromptEnd::kInThinking ? PartKind::kReasoning : PartKind::kContent);
  if (tools != nullptr && !tools->prompt_open.empty() && prompt.ends_with(tools->prompt_open)) {
    open_calls(tools->block_starts[0]);
    raw_.clear();
  }
}

void MarkerParser::push(char byte) {
  if (reader_ != nullptr)
    push_call(byte);
  else
    push_text(byte);
}

bool MarkerParser::in_syntax() const {
  if (syntax_mark_.empty()) return false;
  return reader_ != nullptr ? reader_->in_syntax() : matcher_.held().find(syntax_mark_) != std::string_view::npos;
}

void MarkerParser::push_text(char byte) {
  if (bare_ != nullptr && at_start_ && text_kind_ == PartKind::kContent && matcher_.held().empty() &&
      byte == bare_->text[0]) {
    open_calls(*bare_);
    raw_.clear();
    parts_.begin_block({});
    return push_call(byte);
  }
  text_.clear();
  const int marker = matcher_.push(byte, text_);
  if (!text_.empty()) put(text_);
  if (marker >= 0) found(markers_[static_cast<size_t>(marker)]);
}

void MarkerParser::put(std::string_view text) {
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

void MarkerParser::start_over(PartKind text_kind) {
  text_kind_ = text_kind;
  at_start_ = after_block_ = true;
  space_.clear();
}

void MarkerParser::found(const Marker& marker) {
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
      return open_calls(*marker.block_start);
  }
  put(marker.text);
}

void MarkerParser::open_calls(const BlockStart& block_start) {
  reader_ = block_start.open();
  raw_ = block_start.text;
  parts_.begin_block(block_start.text);
  forced_bytes_ = 0;
  calls_begun_ = progress_ = false;
  // Who thinks aloud about calling something may write the marker without meaning it.
  parts_.require_known_names(block_start.known_names_only || text_kind_ == PartKind::kReasoning);
}

void MarkerParser::push_call(char byte) {
  parts_.read(byte);
  read_call(byte);
}

void MarkerParser::read_again(std::string_view text) {
  for (const char each : text) {
    if (reader_ != nullptr)
      read_call(each);
    else
      push_text(each);
  }
}

void MarkerParser::read_call(char byte) {
  if (progress_) raw_.clear();
  raw_ += byte;
  const ToolCallParser::Step step = reader_->push(byte, parts_);
  progress_ = parts_.take_progress();
  calls_begun_ |= progress_;
  if (step == ToolCallParser::Step::kBad || raw_.size() > kHeldBytesMax) return reject_calls();
  if (step == ToolCallParser::Step::kMore) return;
  const std::string unread = step == ToolCallParser::Step::kUnread ? raw_.substr(raw_.size() - reader_->unread()) : "";
  reader_.reset();
  start_over(PartKind::kContent);
  for (const char each : unread) push(each);
}

void MarkerParser::reject_calls() {
  if (progress_) raw_.erase(0, raw_.size() - 1);
  progress_ = false;
  std::string rest;
  const bool open = parts_.call_open();
  if (open) rest = reader_->unsent(raw_);
  if (open || begin_expected(rest)) {
    reader_ = std::make_unique<tool_call::BrokenCall>(tools_->syntax);
    raw_.clear();
    return read_again(rest);
  }
  reader_.reset();
  if (calls_begun_) start_over(PartKind::kContent);
  const std::string raw = std::exchange(raw_, {});
  // The first byte cannot open the same block again.
  const size_t certain = raw.size() > kSearchedAgainMax ? raw.size() : 1;
  put(std::string_view(raw).substr(0, certain));
  for (const char each : std::string_view(raw).substr(certain)) push(each);
}

void MarkerParser::expect_call() {
  if (reader_ != nullptr && !calls_begun_) forced_bytes_ = raw_.size();
}

bool MarkerParser::begin_expected(std::string& rest) {
  const size_t forced = std::exchange(forced_bytes_, 0);
  if (forced == 0 || calls_begun_) return false;
  std::string_view text = std::string_view(raw_).substr(forced);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  const auto end = std::ranges::find_if_not(text, tool_call::is_name_byte);
  const auto bytes = std::min(static_cast<size_t>(end - text.begin()), kCallNameBytesMax);
  parts_.require_known_names(false);
  if (!parts_.begin(text.substr(0, bytes))) return false;
  rest = text.substr(bytes);
  calls_begun_ = true;
  return true;
}

void MarkerParser::finish() {
  if (reader_ != nullptr) {
    // Unfinished calls are cut, syntax between calls is dropped, and everything else is text.
    std::string rest;
    const bool expected = !parts_.call_open() && begin_expected(rest);
    const bool is_text = !parts_.call_open() && !reader_->between_calls();
    if (expected) {
      parts_.arguments(rest);
      parts_.end(CallState::kCut);
    } else if (parts_.call_open()) {
      reader_->cut_call(parts_);
    }
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

}  // namespace cairn::chat
