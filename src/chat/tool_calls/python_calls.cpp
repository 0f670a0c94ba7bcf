#include "chat/tool_calls/python_calls.h"

#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {

ToolCallParser::Step PythonCalls::push(char byte, PartWriter& parts) {
  switch (state_) {
    case State::kStart:
      if (is_space(byte)) return Step::kMore;
      if (byte == '[' && !in_list_ && !in_print_) {
        in_list_ = true;
        return Step::kMore;
      }
      name_.clear();
      state_ = State::kName;
      return push_name(byte, parts);
    case State::kName:
      return push_name(byte, parts);
    case State::kAfter:
      return push_after(byte);
    case State::kArguments:
      break;
  }
  std::string out;
  const auto result = writer_.push(byte, out);
  if (result == ArgumentWriter::Result::kBad) return Step::kBad;
  parts.arguments(out);
  if (result == ArgumentWriter::Result::kMore) return Step::kMore;
  parts.end(CallState::kWhole);
  ++calls_;
  state_ = State::kAfter;
  after_bytes_ = 0;
  return Step::kMore;
}

ToolCallParser::Step PythonCalls::push_name(char byte, PartWriter& parts) {
  if (byte != '(') {
    name_ += byte;
    const bool fits = is_letter(byte) || byte == '_' || (name_.size() > 1 && is_name_byte(byte));
    return (fits || parts.schemas().begins_name(name_)) && name_.size() <= kCallNameBytesMax ? Step::kMore : Step::kBad;
  }
  const bool is_tool = parts.schemas().has(name_);
  if (name_ == "print" && !in_print_ && !is_tool) {
    in_print_ = true;
    state_ = State::kStart;
    return Step::kMore;
  }
  constexpr std::string_view kMethod = ".call";
  if (name_.ends_with(kMethod) && !is_tool) name_.resize(name_.size() - kMethod.size());
  if (!parts.begin(name_)) return Step::kBad;
  writer_ = ArgumentWriter(Dialect::kKeywords);
  state_ = State::kArguments;
  return Step::kMore;
}

ToolCallParser::Step PythonCalls::push_after(char byte) {
  ++after_bytes_;
  unread_ = after_bytes_;
  if (closer_seen_ > 0 || (!closer_.empty() && byte == closer_[0])) {
    if (byte != closer_[closer_seen_]) return Step::kUnread;
    return ++closer_seen_ == closer_.size() ? Step::kDone : Step::kMore;
  }
  if (is_space(byte)) return Step::kMore;
  if (byte == ')' && in_print_) {
    in_print_ = false;
    return Step::kMore;
  }
  if (byte == ',' && in_list_) {
    state_ = State::kStart;
    return Step::kMore;
  }
  if (byte == ']' && in_list_) {
    in_list_ = false;
    return closer_.empty() ? Step::kDone : Step::kMore;
  }
  if (is_letter(byte) && !in_list_ && !closer_.empty()) {
    name_ = byte;
    state_ = State::kName;
    return Step::kMore;
  }
  return Step::kUnread;
}

void PythonCalls::cut_call(PartWriter& parts) {
  std::string out;
  writer_.cut(out);
  parts.arguments(out);
  parts.end(CallState::kCut);
}

std::string PythonCalls::unsent(std::string_view) const { return writer_.unwritten(); }

}  // namespace cairn::chat::tool_call
