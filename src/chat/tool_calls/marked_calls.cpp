#include "chat/tool_calls/marked_calls.h"

#include <array>
#include <vector>

#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

enum Between { kCallOpen, kCallClose, kBlockClose, kFence };

MarkerMatcher between_matcher(const MarkedStyle& style) {
  const std::array<std::string_view, 4> markers = {style.call_open, style.call_close, style.block_close, style.fence};
  return MarkerMatcher(markers);
}

// What a field may have around a name: white space, and in Kimi's ids functions.NAME:INDEX
constexpr size_t kAroundNameBytesMax = 32;

std::string_view behind_kimi_prefix(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  return id.starts_with(kPrefix) ? id.substr(kPrefix.size()) : id;
}

// The NAME of functions.NAME:INDEX or NAME:INDEX.
std::string_view kimi_name(std::string_view id) {
  id = behind_kimi_prefix(id);
  return id.substr(0, id.rfind(':'));
}

}  // namespace

MarkedCalls::MarkedCalls(const MarkedStyle& style, bool in_call) : style_(style), between_(between_matcher(style)) {
  if (in_call) enter_call();
}

void MarkedCalls::enter_call() {
  name_.clear();
  skipped_.clear();
  id_.clear();
  enter_field(0);
}

void MarkedCalls::enter_field(int field) {
  field_ = field;
  text_.clear();
  const auto ends = style_.fields[static_cast<size_t>(field)].ends;
  std::vector<std::string_view> markers;
  markers.reserve(ends.size());
  for (const Field::End& end : ends) markers.push_back(end.marker);
  ends_ = MarkerMatcher(markers);
}

ToolCallParser::Step MarkedCalls::push(char byte, PartWriter& parts) {
  if (in_arguments_) return push_arguments(byte, parts);
  if (awaits_brace_) return push_brace_or_content(byte, parts);
  return field_ >= 0 ? push_field(byte, parts) : push_between(byte);
}

ToolCallParser::Step MarkedCalls::push_between(char byte) {
  ++between_bytes_;
  if (between_.held().empty() && is_space(byte)) return Step::kMore;
  std::string text;
  const int found = between_.push(byte, text);
  if (!text.empty()) {
    unread_ = between_bytes_;
    return calls_ > 0 ? Step::kUnread : Step::kBad;
  }
  if (found < 0) return Step::kMore;
  between_bytes_ = 0;
  if (found == kCallOpen) enter_call();
  return found == kBlockClose ? Step::kDone : Step::kMore;
}

bool MarkedCalls::brace_is_of_name(const PartWriter& parts) const {
  const FieldRole role = style_.fields[static_cast<size_t>(field_)].role;
  if (style_.brace_ends_name || (role != FieldRole::kName && role != FieldRole::kKimiId)) return false;
  const std::string_view text = trim(text_);
  return parts.schemas().begins_name(std::string(role == FieldRole::kName ? text : behind_kimi_prefix(text)) + '{');
}

ToolCallParser::Step MarkedCalls::push_field(char byte, PartWriter& parts) {
  const Field& field = style_.fields[static_cast<size_t>(field_)];
  // The arguments begin with a brace, whatever is missing before them.
  const bool brace = byte == '{' && ends_.held().empty() && !brace_is_of_name(parts);
  int found = -1;
  if (!brace) {
    found = ends_.push(byte, text_);
    const size_t more = field.role == FieldRole::kId ? 0 : kAroundNameBytesMax;
    if (text_.size() > kCallNameBytesMax + more) return Step::kBad;
    if (found < 0) return Step::kMore;
  }
  const std::string text(trim(text_));
  switch (field.role) {
    case FieldRole::kName:
      name_ = text;
      break;
    case FieldRole::kId:
      id_ = text;
      break;
    case FieldRole::kSkipped:
      skipped_ = text;
      break;
    case FieldRole::kKimiId:
      id_ = text;
      name_ = kimi_name(text);
      break;
  }
  const int next = brace ? -1 : field.ends[static_cast<size_t>(found)].next;
  if (next >= 0) {
    enter_field(next);
    return Step::kMore;
  }
  if (!name_.empty() && name_ == style_.content_name && !brace) {
    if (!parts.schemas().has(name_)) return Step::kDone;
    field_ = -1;
    awaits_brace_ = true;
    between_bytes_ = 0;
    return Step::kMore;
  }
  if (!begin(parts)) return Step::kBad;
  return brace ? push_arguments(byte, parts) : Step::kMore;
}

ToolCallParser::Step MarkedCalls::push_brace_or_content(char byte, PartWriter& parts) {
  unread_ = ++between_bytes_;
  if (is_space(byte)) return Step::kMore;
  awaits_brace_ = false;
  if (byte != '{') return Step::kUnread;
  return begin(parts) ? push_arguments(byte, parts) : Step::kBad;
}

bool MarkedCalls::begin(PartWriter& parts) {
  field_ = -1;
  if (!parts.begin(name_.empty() ? skipped_ : name_, id_)) return false;
  writer_ = ArgumentWriter(style_.dialect);
  in_arguments_ = true;
  return true;
}

ToolCallParser::Step MarkedCalls::push_arguments(char byte, PartWriter& parts) {
  if (!writer_.started()) {
    if (is_space(byte)) return Step::kMore;
    if (byte != '{') return Step::kBad;
  }
  std::string out;
  const auto result = writer_.push(byte, out);
  if (result == ArgumentWriter::Result::kBad) return Step::kBad;
  parts.arguments(out);
  if (result == ArgumentWriter::Result::kMore) return Step::kMore;
  parts.end(CallState::kWhole);
  in_arguments_ = false;
  between_bytes_ = 0;
  ++calls_;
  return Step::kMore;
}

void MarkedCalls::cut_call(PartWriter& parts) {
  std::string out;
  if (writer_.started()) writer_.cut(out);
  parts.arguments(out);
  parts.end(CallState::kCut);
}

std::string MarkedCalls::unsent(std::string_view since_part) const {
  return writer_.started() ? writer_.unwritten() : std::string(since_part);
}

}  // namespace cairn::chat::tool_call
