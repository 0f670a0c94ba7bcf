#include "chat/tool_calls/argument_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "chat/output_parts.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr size_t kBareBytesMax = 512;

// The JSON of a number or constant; empty if `text` is neither.
std::string bare_value(std::string_view text) {
  if (text == "true" || text == "True") return "true";
  if (text == "false" || text == "False") return "false";
  if (text == "null" || text == "None") return "null";
  const bool is_number = !text.empty() && (is_digit(text[0]) || text[0] == '-') && nlohmann::json::accept(text);
  return is_number ? std::string(text) : std::string();
}

}  // namespace

void append_escaped(std::string& to, char byte) {
  switch (byte) {
    case '"':
      to += "\\\"";
      return;
    case '\\':
      to += "\\\\";
      return;
    case '\n':
      to += "\\n";
      return;
    case '\r':
      to += "\\r";
      return;
    case '\t':
      to += "\\t";
      return;
    default:
      break;
  }
  if (static_cast<unsigned char>(byte) < 0x20)
    to += fmt::format("\\u{:04x}", static_cast<unsigned char>(byte));
  else
    to += byte;
}

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  for (const char byte : text) append_escaped(to, byte);
  to += '"';
}

ArgumentWriter::ArgumentWriter(Dialect dialect) : dialect_(dialect) {
  if (dialect != Dialect::kKeywords) return;
  pending_ = "{";
  open_ = ")";
  state_ = State::kKeyOrClose;
}

ArgumentWriter::Result ArgumentWriter::push(char byte, std::string& out) {
  unwritten_ += byte;
  const Result result = push_byte(byte, out);
  const bool waits = quote_bytes_ > 0 || !(pending_.empty() && bare_.empty() && escape_.empty() && high_.empty());
  if (result != Result::kBad && !waits) unwritten_.clear();
  return result;
}

ArgumentWriter::Result ArgumentWriter::push_byte(char byte, std::string& out) {
  if (in_quote_) {
    if (byte != kGemmaQuote[quote_bytes_]) return Result::kBad;
    if (++quote_bytes_ == kGemmaQuote.size()) in_quote_ = false, quote_bytes_ = 0;
    return Result::kMore;
  }
  switch (state_) {
    case State::kValue:
    case State::kElementOrClose:
      return push_value(byte, out);
    case State::kKeyOrClose:
    case State::kKeyText:
    case State::kKeyBare:
    case State::kColon:
      return push_key(byte, out);
    case State::kText:
      if (!push_text(byte, out)) return Result::kMore;
      out += '"';
      return value_ended();
    case State::kBare:
      return push_bare(byte, out);
    case State::kAfter:
      return push_after(byte, out);
    case State::kEnd:
      break;
  }
  return Result::kBad;
}

bool ArgumentWriter::open_quote(char byte) {
  if (dialect_ == Dialect::kGemma && byte == '<') {
    in_quote_ = true;
    quote_bytes_ = 1;
    quote_ = '<';
    return true;
  }
  if (byte != '"' && byte != '\'') return false;
  quote_ = byte;
  return true;
}

void ArgumentWriter::release(std::string& out) {
  started_ = true;
  out += pending_;
  pending_.clear();
}

ArgumentWriter::Result ArgumentWriter::value_ended() {
  state_ = open_.empty() ? State::kEnd : State::kAfter;
  return open_.empty() ? Result::kDone : Result::kMore;
}

ArgumentWriter::Result ArgumentWriter::push_value(char byte, std::string& out) {
  if (is_space(byte)) {
    if (pending_.size() < kArgumentKeyBytesMax) pending_ += byte;
    return Result::kMore;
  }
  if (byte == ']' && state_ == State::kElementOrClose) return close_frame(out);
  if (open_quote(byte)) {
    release(out);
    out += '"';
    state_ = State::kText;
    return Result::kMore;
  }
  if (byte == '{' || byte == '[') {
    if (open_.size() >= kArgumentDepthMax) return Result::kBad;
    release(out);
    out += byte;
    open_ += byte == '{' ? '}' : ']';
    state_ = byte == '{' ? State::kKeyOrClose : State::kElementOrClose;
    return Result::kMore;
  }
  if (!is_letter(byte) && !is_digit(byte) && byte != '-') return Result::kBad;
  bare_ = byte;
  state_ = State::kBare;
  return Result::kMore;
}

ArgumentWriter::Result ArgumentWriter::push_bare(char byte, std::string& out) {
  if (is_letter(byte) || is_digit(byte) || byte == '-' || byte == '+' || byte == '.') {
    bare_ += byte;
    return bare_.size() > kBareBytesMax ? Result::kBad : Result::kMore;
  }
  const std::string value = bare_value(bare_);
  if (value.empty()) return Result::kBad;
  release(out);
  out += value;
  bare_.clear();
  unwritten_ = byte;
  if (value_ended() == Result::kDone) return Result::kDoneBefore;
  return push_after(byte, out);
}

ArgumentWriter::Result ArgumentWriter::push_after(char byte, std::string& out) {
  if (is_space(byte)) {
    if (pending_.size() < kArgumentKeyBytesMax) pending_ += byte;
    return Result::kMore;
  }
  if (byte == ',') {
    pending_ += byte;
    state_ = open_.back() == ']' ? State::kElementOrClose : State::kKeyOrClose;
    return Result::kMore;
  }
  return byte == open_.back() ? close_frame(out) : Result::kBad;
}

ArgumentWriter::Result ArgumentWriter::close_frame(std::string& out) {
  if (pending_.find(',') != std::string::npos) pending_.clear();  // a trailing comma, with the spaces around it
  release(out);
  out += open_.back() == ']' ? ']' : '}';
  open_.pop_back();
  return value_ended();
}

ArgumentWriter::Result ArgumentWriter::push_key(char byte, std::string& out) {
  if (pending_.size() > kArgumentKeyBytesMax) return Result::kBad;
  const bool assigns = byte == ':' || (byte == '=' && open_.back() == ')');
  switch (state_) {
    case State::kKeyText:
      if (push_text(byte, pending_)) pending_ += '"', state_ = State::kColon;
      return Result::kMore;
    case State::kKeyBare:
      if (assigns) {
        pending_ += "\":";
        state_ = State::kValue;
      } else if (is_space(byte)) {
        pending_ += '"';
        state_ = State::kColon;
      } else if (is_name_byte(byte)) {
        pending_ += byte;
      } else {
        return Result::kBad;
      }
      return Result::kMore;
    case State::kColon:
      if (assigns) {
        pending_ += ':';
        state_ = State::kValue;
      }
      return assigns || is_space(byte) ? Result::kMore : Result::kBad;
    default:
      break;
  }
  if (is_space(byte)) {
    pending_ += byte;
  } else if (byte == open_.back()) {
    return close_frame(out);
  } else if (open_quote(byte)) {
    pending_ += '"';
    state_ = State::kKeyText;
  } else if (is_letter(byte) || byte == '_') {
    pending_ += '"';
    pending_ += byte;
    state_ = State::kKeyBare;
  } else {
    return Result::kBad;
  }
  return Result::kMore;
}

bool ArgumentWriter::push_gemma_text(char byte, std::string& to) {
  if (byte == kGemmaQuote[quote_bytes_]) {
    if (++quote_bytes_ < kGemmaQuote.size()) return false;
    quote_bytes_ = 0;
    return true;
  }
  for (const char seen : kGemmaQuote.substr(0, quote_bytes_)) append_escaped(to, seen);
  quote_bytes_ = byte == kGemmaQuote[0] ? 1 : 0;
  if (quote_bytes_ == 0) append_escaped(to, byte);
  return false;
}

bool ArgumentWriter::push_text(char byte, std::string& to) {
  if (quote_ == '<') return push_gemma_text(byte, to);
  if (!escape_.empty()) {
    const bool takes = escape_.size() == 1 || is_hex(byte);
    if (takes) {
      push_escape(byte, to);
      return false;
    }
    // After \u without four digits, the backslash is taken literally.
    if (!high_.empty()) to += "\\ufffd";
    high_.clear();
    to += '\\';
    to += escape_;
    escape_.clear();
  }
  if (byte == '\\') {
    escape_ = byte;
    return false;
  }
  if (!high_.empty()) to += "\\ufffd";
  high_.clear();
  if (byte == quote_) return true;
  append_escaped(to, byte);
  return false;
}

void ArgumentWriter::push_escape(char byte, std::string& to) {
  escape_ += byte;
  if (escape_ == "\\u" || (escape_.size() > 2 && escape_.size() < 6)) return;
  if (escape_.size() == 6) {
    const bool high = is_high_surrogate(escape_);
    const bool low = is_low_surrogate(escape_);
    if (!high_.empty()) to += low ? high_ : "\\ufffd";
    if (high) {
      high_ = escape_;
    } else {
      to += low && high_.empty() ? "\\ufffd" : escape_;
      high_.clear();
    }
    escape_.clear();
    return;
  }
  if (!high_.empty()) to += "\\ufffd";
  high_.clear();
  escape_.clear();
  if (std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos) {
    to += '\\';
    to += byte;
  } else if (byte == '\'') {
    to += byte;
  } else {
    to += "\\\\";
    append_escaped(to, byte);
  }
}

void ArgumentWriter::cut(std::string& out) const {
  out += pending_;
  out += bare_;
  if (!in_quote_)
    for (const char seen : kGemmaQuote.substr(0, quote_bytes_)) append_escaped(out, seen);
  out += high_;
  out += escape_;
}

}  // namespace cairn::chat::tool_call
