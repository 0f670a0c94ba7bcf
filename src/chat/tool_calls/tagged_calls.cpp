#include "chat/tool_calls/tagged_calls.h"

#include <algorithm>
#include <utility>

#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

constexpr std::string_view kCdataOpen = "<![CDATA[";

std::vector<std::string_view> markers_of(std::span<const TagEnd> ends) {
  std::vector<std::string_view> markers;
  markers.reserve(ends.size());
  for (const TagEnd& end : ends) markers.push_back(end.marker);
  return markers;
}

bool may_begin_name(std::string_view text, const ToolSchemas& schemas) {
  return std::ranges::all_of(text, is_call_name_byte) || schemas.begins_name(text);
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

TaggedCalls::TaggedCalls(const TagStyle& style, bool in_call) : style_(style) {
  enter(in_call || style.call_open.empty() ? State::kName : State::kBetween);
}

void TaggedCalls::enter(State state) {
  state_ = state;
  text_.clear();
  std::vector<std::string_view> markers;
  switch (state) {
    case State::kBetween:
      markers = {style_.call_open, style_.block_close};
      between_bytes_ = 0;
      break;
    case State::kName:
      markers = markers_of(style_.name_ends);
      break;
    case State::kParameters:
      markers = {style_.parameter_open, style_.call_close, style_.block_close, style_.call_open};
      if (!outer_.empty()) markers.push_back(style_.value_ends[0].marker);
      break;
    case State::kKey:
      markers = {style_.key_end};
      break;
    case State::kNameAttributes:
    case State::kAttributes:
      markers = {style_.attributes_end};
      break;
    case State::kValueOpen:
      markers = {style_.value_open};
      break;
    case State::kValue:
      markers = markers_of(style_.value_ends);
      break;
    case State::kJson:
      break;
  }
  matcher_ = MarkerMatcher(markers);
}

ToolCallParser::Step TaggedCalls::push(char byte, PartWriter& parts) {
  switch (state_) {
    case State::kBetween:
      return push_between(byte);
    case State::kName:
      return push_name(byte, parts);
    case State::kParameters:
      return push_parameters(byte, parts);
    case State::kValue:
      return push_value(byte, parts);
    case State::kJson:
      return push_json(byte, parts);
    default:
      return push_key(byte, parts);
  }
}

ToolCallParser::Step TaggedCalls::push_between(char byte) {
  ++between_bytes_;
  if (matcher_.held().empty() && is_space(byte)) return Step::kMore;
  std::string text;
  const int found = matcher_.push(byte, text);
  if (!text.empty()) {
    unread_ = between_bytes_;
    return calls_ > 0 ? Step::kUnread : Step::kBad;
  }
  if (found == 0) enter(State::kName);
  return found == 1 ? Step::kDone : Step::kMore;
}

ToolCallParser::Step TaggedCalls::push_name(char byte, PartWriter& parts) {
  if (text_.empty() && matcher_.held().empty() && is_space(byte)) return Step::kMore;
  const int found = matcher_.push(byte, text_);
  if (text_.size() > kCallNameBytesMax || !may_begin_name(trim(text_), parts.schemas())) return Step::kBad;
  if (found < 0) return Step::kMore;
  name_ = trim(text_);
  parameters_ = 0;
  is_json_ = false;
  if (!parts.begin(name_)) return Step::kBad;
  return follow(style_.name_ends[static_cast<size_t>(found)].next, parts);
}

ToolCallParser::Step TaggedCalls::follow(TagNext next, PartWriter& parts) {
  switch (next) {
    case TagNext::kParameters:
      enter(State::kParameters);
      break;
    case TagNext::kKey:
      enter(State::kKey);
      break;
    case TagNext::kAttributes:
      enter(State::kNameAttributes);
      break;
    case TagNext::kCallEnd:
      return end_call(parts);
    case TagNext::kBlockEnd:
      end_call(parts);
      return Step::kDone;
  }
  return Step::kMore;
}

ToolCallParser::Step TaggedCalls::end_call(PartWriter& parts) {
  std::string out;
  while (!outer_.empty()) close_nested(out);
  if (!is_json_) out += parameters_ == 0 ? "{}" : "}";
  parts.arguments(out);
  parts.end(CallState::kWhole);
  ++calls_;
  enter(State::kBetween);
  return style_.block_close.empty() ? Step::kDone : Step::kMore;
}

ToolCallParser::Step TaggedCalls::push_parameters(char byte, PartWriter& parts) {
  if (matcher_.held().empty()) {
    if (is_space(byte)) return Step::kMore;
    if (byte == '{' && parameters_ == 0 && !is_json_) {
      is_json_ = true;
      json_ = ArgumentWriter();
      json_string_ = JsonString();
      enter(State::kJson);
      return push_json(byte, parts);
    }
  }
  std::string text;
  const int found = matcher_.push(byte, text);
  if (!text.empty() || (found == 0 && is_json_)) return Step::kBad;
  switch (found) {
    case 0:
      enter(State::kKey);
      return Step::kMore;
    case 1:
      return end_call(parts);
    case 2:
      end_call(parts);
      return Step::kDone;
    case 3:
      end_call(parts);
      enter(State::kName);
      return Step::kMore;
    case 4:
      close_nested(text);
      parts.arguments(text);
      enter(State::kParameters);
      return Step::kMore;
    default:
      return Step::kMore;
  }
}

ToolCallParser::Step TaggedCalls::push_key(char byte, PartWriter& parts) {
  if (state_ == State::kValueOpen && matcher_.held().empty() && is_space(byte)) return Step::kMore;
  const int found = matcher_.push(byte, text_);
  if (text_.size() > kArgumentKeyBytesMax || (state_ == State::kValueOpen && !text_.empty())) return Step::kBad;
  if (found < 0) return Step::kMore;
  switch (state_) {
    case State::kNameAttributes:
      return follow(TagNext::kParameters, parts);
    case State::kKey:
      key_ = style_.dsml ? unescape_dsml_attribute(text_) : std::string(trim(text_));
      attributes_.clear();
      if (!style_.attributes_end.empty()) {
        enter(State::kAttributes);
        return Step::kMore;
      }
      break;
    case State::kAttributes:
      attributes_ = text_;
      break;
    default:
      enter_value();
      return Step::kMore;
  }
  if (style_.value_open.empty())
    enter_value();
  else
    enter(State::kValueOpen);
  return Step::kMore;
}

// A single byte of a tag begun in a value may be text; two bytes are a tag.
bool TaggedCalls::in_syntax() const {
  if (state_ == State::kJson) return !json_string_.inside();
  if (state_ != State::kValue || matcher_.held().size() > 1) return true;
  return is_json_value() && !json_string_.inside();
}

bool TaggedCalls::is_json_value() const { return has(attributes_, "string=\"false\""); }

void TaggedCalls::enter_value() {
  enter(State::kValue);
  json_string_ = JsonString();
  in_value_ = false;
  blank_.clear();
  cdata_seen_ = 0;
}

void TaggedCalls::begin_key(std::string& out) {
  out += parameters_++ == 0 ? "{" : ", ";
  append_quoted(out, key_);
  out += ": ";
}

// Called only when a byte of the value has come: a key without a value is no argument.
void TaggedCalls::begin_value(std::string& out, const PartWriter& parts) {
  in_value_ = true;
  begin_key(out);
  ValueKind kind = outer_.empty() ? parts.schemas().kind(name_, key_) : ValueKind::kUnknown;
  if (has(attributes_, "string=\"true\"") || has(attributes_, "type=\"string\"")) {
    kind = ValueKind::kString;
  } else if (is_json_value() || has(attributes_, "type=\"")) {
    kind = ValueKind::kOther;
  }
  value_.begin(kind, style_.padded, out);
}

// A parameter where a value was expected: the value is an object of what follows.
ToolCallParser::Step TaggedCalls::nest(PartWriter& parts) {
  if (outer_.size() + 1 >= kArgumentDepthMax) return Step::kBad;
  std::string out;
  begin_key(out);
  parts.arguments(out);
  outer_.push_back(parameters_);
  parameters_ = 0;
  enter(State::kKey);
  return Step::kMore;
}

void TaggedCalls::close_nested(std::string& out) {
  out += parameters_ == 0 ? "{}" : "}";
  parameters_ = outer_.back();
  outer_.pop_back();
}

void TaggedCalls::put_value(char byte, std::string& out) {
  if (!style_.dsml) return value_.push(byte, out);
  json_string_.push(byte);
  std::string plain;
  unescaper_.push(byte, plain);
  for (const char each : plain) value_.push(each, out);
}

void TaggedCalls::end_value(std::string& out) {
  std::string plain;
  unescaper_.flush(plain);
  for (const char each : plain) value_.push(each, out);
  value_.end(out);
}

ToolCallParser::Step TaggedCalls::push_value(char byte, PartWriter& parts) {
  if (!style_.cdata || in_value_ || cdata_seen_ >= kCdataOpen.size()) return push_value_byte(byte, parts);
  if (byte == kCdataOpen[cdata_seen_]) {
    ++cdata_seen_;
    return Step::kMore;
  }
  // The bytes that looked like the opener belong to the value; no closing tag begins with more than one of them.
  for (const char seen : kCdataOpen.substr(0, cdata_seen_)) push_value_byte(seen, parts);
  return push_value_byte(byte, parts);
}

ToolCallParser::Step TaggedCalls::push_value_byte(char byte, PartWriter& parts) {
  std::string out;
  if (!in_value_ && !style_.dsml) begin_value(out, parts);
  std::string text;
  const int found = matcher_.push(byte, text);
  const TagNext next = found < 0 ? TagNext::kParameters : style_.value_ends[static_cast<size_t>(found)].next;
  if (!in_value_) {
    blank_ += text;
    const bool is_blank = trim(blank_).empty() && blank_.size() < kSpaceBytesMax;
    if (is_blank && found < 0) return Step::kMore;
    if (is_blank && next == TagNext::kKey) return nest(parts);
    begin_value(out, parts);
    text = std::exchange(blank_, {});
  }
  for (const char each : text) put_value(each, out);
  if (found >= 0) end_value(out);
  parts.arguments(out);
  if (found < 0) return Step::kMore;
  in_value_ = false;
  return follow(next, parts);
}

ToolCallParser::Step TaggedCalls::push_json(char byte, PartWriter& parts) {
  std::string out;
  json_string_.push(byte);
  const auto result = json_.push(byte, out);
  if (result == ArgumentWriter::Result::kBad) return Step::kBad;
  parts.arguments(out);
  if (result == ArgumentWriter::Result::kDone) enter(State::kParameters);
  return Step::kMore;
}

void TaggedCalls::cut_call(PartWriter& parts) {
  // Arguments that are one object, and whole, lack only the tag.
  if (is_json_ && state_ != State::kJson) return parts.end(CallState::kWhole);
  std::string out;
  if (is_json_) json_.cut(out);
  if (in_value_) {
    std::string plain;
    unescaper_.flush(plain);
    for (const char each : plain) value_.push(each, out);
    value_.cut(out);
  }
  parts.arguments(out);
  parts.end(CallState::kCut);
}

std::string TaggedCalls::unsent(std::string_view since_part) const {
  return state_ == State::kJson ? json_.unwritten() : std::string(since_part);
}

}  // namespace cairn::chat::tool_call
