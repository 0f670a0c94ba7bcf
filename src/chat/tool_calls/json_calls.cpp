#include "chat/tool_calls/json_calls.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/utf8.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

using Result = ArgumentWriter::Result;

constexpr size_t kKnownKeyBytesMax = 64;
// A name or an id as JSON may be this long: each of its bytes may be an escape, and there are quotes.
constexpr size_t kNameJsonBytesMax = 6 * kCallNameBytesMax + 2;

bool is_name_key(std::string_view key) { return key == "name" || key == "tool_name"; }
bool is_arguments_key(std::string_view key) { return key == "arguments" || key == "parameters"; }

uint32_t unit_of(const std::string& escape) {
  uint32_t unit = 0;
  std::from_chars(escape.data() + 2, escape.data() + escape.size(), unit, 16);
  return unit;
}

}  // namespace

void StringDecoder::push(char byte, std::string& text) {
  if (escape_.empty()) {
    if (byte == '"') {
      inside_ = true;
    } else if (byte == '\\') {
      escape_ = byte;
    } else if (inside_) {
      text += byte;
    }
    return;
  }
  escape_ += byte;
  if (escape_[1] == 'u') {
    if (escape_.size() < 6) return;
    const uint32_t unit = unit_of(escape_);
    if (is_high_surrogate(escape_)) {
      high_ = escape_;
    } else if (is_low_surrogate(escape_) && !high_.empty()) {
      utf8_append(text, static_cast<char32_t>(0x10000 + ((unit_of(high_) - 0xD800) << 10) + (unit - 0xDC00)));
      high_.clear();
    } else {
      utf8_append(text, static_cast<char32_t>(unit));
    }
  } else {
    const size_t which = std::string_view("bfnrt").find(byte);
    text += which == std::string_view::npos ? byte : "\b\f\n\r\t"[which];
  }
  escape_.clear();
}

ToolCallParser::Step JsonCalls::push(char byte, PartWriter& parts) {
  switch (state_) {
    case State::kStart:
      return push_start(byte);
    case State::kKeyOrClose:
    case State::kKey:
    case State::kColon:
    case State::kAfterValue:
      return push_structure(byte, parts);
    case State::kValue:
      return is_space(byte) ? Step::kMore : begin_value(byte, parts);
    case State::kAfter:
      return push_after(byte);
    default:
      return push_value(byte, parts);
  }
}

ToolCallParser::Step JsonCalls::push_start(char byte) {
  if (is_space(byte)) return Step::kMore;
  if (byte == '[' && !in_list_) {
    in_list_ = true;
    return Step::kMore;
  }
  if (byte != '{') return Step::kBad;
  begin_object();
  return Step::kMore;
}

void JsonCalls::begin_object() {
  nested_ = begun_ = ended_ = has_arguments_ = false;
  name_.clear();
  id_.clear();
  early_.clear();
  state_ = State::kKeyOrClose;
}

ToolCallParser::Step JsonCalls::push_structure(char byte, PartWriter& parts) {
  if (state_ == State::kKey) {
    if (byte == '"') {
      state_ = State::kColon;
    } else {
      key_ += byte;
    }
    return key_.size() > (style_.name_is_key ? kCallNameBytesMax : kKnownKeyBytesMax) ? Step::kBad : Step::kMore;
  }
  if (is_space(byte)) return Step::kMore;
  if (state_ == State::kColon) {
    if (byte != ':') return Step::kBad;
    state_ = State::kValue;
    if (!style_.name_is_key || begun_) return Step::kMore;
    name_ = key_;
    return named(parts);
  }
  if (byte == '}') return object_ended(parts);
  if (state_ == State::kAfterValue) {
    if (byte == ',') {
      state_ = State::kKeyOrClose;
      return Step::kMore;
    }
    // The object's own brace is missing.
    if (!ended_ || style_.closer.empty() || byte != style_.closer[0]) return Step::kBad;
    state_ = State::kAfter;
    after_bytes_ = 0;
    closer_seen_ = 0;
    return push_after(byte);
  }
  if (byte != '"') return Step::kBad;
  key_.clear();
  state_ = State::kKey;
  return Step::kMore;
}

ToolCallParser::Step JsonCalls::begin_value(char byte, PartWriter& parts) {
  value_ = ArgumentWriter();
  encoded_done_ = false;
  value_bytes_ = 0;
  text_.clear();
  const bool wants_arguments = !has_arguments_ && (style_.name_is_key || is_arguments_key(key_));
  if (key_ == "function" && byte == '{' && !nested_ && !begun_) {
    nested_ = true;
    state_ = State::kKeyOrClose;
    return Step::kMore;
  }
  if ((is_name_key(key_) || key_ == "function") && name_.empty()) {
    if (byte != '"') return Step::kBad;
    state_ = State::kName;
  } else if (style_.ids && key_ == "id" && byte == '"' && !begun_) {
    state_ = State::kId;
  } else if (wants_arguments && byte == '"') {
    encoded_ = ArgumentWriter();
    string_ended_ = false;
    decoder_ = StringDecoder();
    state_ = State::kEncoded;
  } else if (wants_arguments && (byte == '{' || byte == '[')) {
    state_ = State::kArguments;
  } else if (wants_arguments && byte != 'n' && byte != 'N') {  // null is the only other value that means none
    value_bytes_ = 1;
    return Step::kBad;
  } else {
    state_ = State::kSkipped;
  }
  return push_value(byte, parts);
}

ToolCallParser::Step JsonCalls::push_value(char byte, PartWriter& parts) {
  std::string out;
  ++value_bytes_;
  const Result result = value_.push(byte, out);
  if (result == Result::kBad) return Step::kBad;
  const bool done = result != Result::kMore;
  if (state_ == State::kArguments) {
    give(parts, out);
    if (done) return arguments_ended(parts);
  } else if (state_ == State::kEncoded) {
    if (const Step step = push_encoded(out, parts); step != Step::kMore) return step;
    if (done) return arguments_ended(parts);
  } else if (state_ == State::kName || state_ == State::kId) {
    text_ += out;
    if (text_.size() > kNameJsonBytesMax) return Step::kBad;
    if (done) {
      const auto text = nlohmann::json::parse(text_, nullptr, false);
      if (!text.is_string()) return Step::kBad;
      const bool is_name = state_ == State::kName;
      (is_name ? name_ : id_) = text.get<std::string>();
      if (!is_name && id_.size() > kCallNameBytesMax) return Step::kBad;
      state_ = State::kAfterValue;
      if (is_name) return named(parts);
    }
  } else if (done) {
    state_ = State::kAfterValue;
    if (result == Result::kDoneBefore) return push_structure(byte, parts);
  }
  return Step::kMore;
}

ToolCallParser::Step JsonCalls::push_encoded(const std::string& json, PartWriter& parts) {
  std::string text;
  for (const char byte : json) decoder_.push(byte, text);
  std::string out;
  for (const char byte : text) {
    if (is_space(byte) && (encoded_done_ || !encoded_.started())) continue;
    if (encoded_done_ || (!encoded_.started() && byte != '{')) return Step::kBad;
    const Result result = encoded_.push(byte, out);
    if (result == Result::kBad) return Step::kBad;
    encoded_done_ = result == Result::kDone;
  }
  give(parts, out);
  return Step::kMore;
}

void JsonCalls::give(PartWriter& parts, std::string_view bytes) {
  if (begun_)
    parts.arguments(bytes);
  else
    early_ += bytes;
}

ToolCallParser::Step JsonCalls::named(PartWriter& parts) {
  if (!parts.begin(name_, id_)) return Step::kBad;
  begun_ = true;
  give(parts, std::exchange(early_, {}));
  if (has_arguments_) {
    parts.end(CallState::kWhole);
    ended_ = true;
  }
  return Step::kMore;
}

ToolCallParser::Step JsonCalls::arguments_ended(PartWriter& parts) {
  if (state_ == State::kEncoded && !encoded_done_) {
    string_ended_ = true;
    if (encoded_.started()) return Step::kBad;
    give(parts, "{}");
  }
  has_arguments_ = true;
  state_ = State::kAfterValue;
  if (begun_) {
    parts.end(CallState::kWhole);
    ended_ = true;
  }
  return Step::kMore;
}

ToolCallParser::Step JsonCalls::object_ended(PartWriter& parts) {
  if (nested_) {
    nested_ = false;
    state_ = State::kAfterValue;
    return Step::kMore;
  }
  if (!begun_) return Step::kBad;
  if (!ended_) {
    parts.arguments("{}");
    parts.end(CallState::kWhole);
    ended_ = true;
  }
  state_ = State::kAfter;
  after_bytes_ = 0;
  closer_seen_ = 0;
  return Step::kMore;
}

ToolCallParser::Step JsonCalls::push_after(char byte) {
  ++after_bytes_;
  const std::string_view closer = style_.closer;
  if (closer_seen_ > 0 || (!closer.empty() && byte == closer[0] && !(byte == ']' && in_list_))) {
    unread_ = after_bytes_;
    if (byte != closer[closer_seen_]) return Step::kUnread;
    return ++closer_seen_ == closer.size() ? Step::kDone : Step::kMore;
  }
  if (is_space(byte) || byte == ',' || byte == ';') return Step::kMore;
  if (byte == '{') {
    begin_object();
    return Step::kMore;
  }
  const bool ends_list = byte == ']' && in_list_;
  // Small models write more closing braces than opening ones.
  const bool is_noise = byte == '}' && !closer.empty();
  if (ends_list || is_noise) {
    after_bytes_ = 0;
    if (ends_list) in_list_ = false;
    return ends_list && closer.empty() ? Step::kDone : Step::kMore;
  }
  unread_ = after_bytes_;
  return Step::kUnread;
}

void JsonCalls::cut_call(PartWriter& parts) {
  std::string out;
  if (state_ == State::kArguments) value_.cut(out);
  if (state_ == State::kEncoded && !encoded_done_) encoded_.cut(out);
  parts.arguments(out);
  // Encoded arguments that are whole lack only the quote.
  parts.end(state_ == State::kEncoded && encoded_done_ ? CallState::kWhole : CallState::kCut);
}

std::string JsonCalls::unsent(std::string_view since_part) const {
  if (state_ == State::kArguments) return value_.unwritten();
  if (state_ == State::kEncoded && encoded_.started() && !encoded_done_) {
    // A string that ends before the object within it ends with its quote, which is no JSON there.
    return encoded_.unwritten() + (string_ended_ ? "\"" : "");
  }
  const bool in_value = state_ == State::kValue || state_ == State::kSkipped || state_ == State::kEncoded;
  const bool of_arguments = in_value && !encoded_done_ && is_arguments_key(key_) && value_bytes_ <= since_part.size();
  return std::string(of_arguments ? since_part.substr(since_part.size() - value_bytes_) : since_part);
}

}  // namespace cairn::chat::tool_call
