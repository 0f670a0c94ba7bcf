#include "chat/tool_calls/tagged_calls.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "chat/output_parts.h"
#include "chat/tool_calls/argument_writer.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

// Whether a value, in JSON or in Python's syntax, may begin with this byte.
bool may_begin_value(char byte) {
  return std::string_view("{[\"'-").find(byte) != std::string_view::npos || is_digit(byte) ||
         std::string_view("tfnTFN").find(byte) != std::string_view::npos;
}

// `text` as JSON; empty if it is not a value.
std::string as_json(std::string_view text) {
  ArgumentWriter writer;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto result = writer.push(text[i], out);
    if (result == ArgumentWriter::Result::kMore) continue;
    return result == ArgumentWriter::Result::kDone && i + 1 == text.size() ? out : std::string();
  }
  // A number or constant ends only with the text.
  const bool is_bare = !text.empty() && text[0] != '{' && text[0] != '[' && text[0] != '"' && text[0] != '\'';
  if (is_bare && writer.push(' ', out) == ArgumentWriter::Result::kDoneBefore) return out;
  return {};
}

}  // namespace

void TaggedValue::begin(ValueKind kind, bool padded, std::string& out) {
  kind_ = kind;
  padded_ = padded;
  first_ = true;
  line_end_ = false;
  is_string_ = kind == ValueKind::kString;
  held_.clear();
  if (is_string_) out += '"';
}

void TaggedValue::push(char byte, std::string& out) {
  const bool first = first_;
  first_ = false;
  if (padded_ && byte == '\n') {
    if (line_end_) put('\n', out);
    line_end_ = !first;
    return;
  }
  if (line_end_) put('\n', out);
  line_end_ = false;
  put(byte, out);
}

void TaggedValue::put(char byte, std::string& out) {
  if (is_string_) return append_escaped(out, byte);
  const bool was_blank = trim(held_).empty();
  held_ += byte;
  if (kind_ == ValueKind::kStringOrNull) {
    if (!std::string_view("null").starts_with(held_)) become_string(out);
  } else if (held_.size() > kValueBytesMax ||
             (kind_ == ValueKind::kUnknown && was_blank && !is_space(byte) && !may_begin_value(byte))) {
    become_string(out);
  }
}

void TaggedValue::become_string(std::string& out) {
  is_string_ = true;
  out += '"';
  for (const char byte : held_) append_escaped(out, byte);
  held_.clear();
}

void TaggedValue::end(std::string& out) {
  if (!is_string_) {
    const std::string_view text = trim(held_);
    // Python's constants and quotes are accepted only if no string was meant.
    const bool json = kind_ == ValueKind::kOther || (!text.empty() && (text[0] == '{' || text[0] == '[')) ||
                      nlohmann::json::accept(text);
    if (const std::string value = json ? as_json(text) : std::string(); !value.empty()) {
      out += value;
      return;
    }
    become_string(out);
  }
  out += '"';
}

}  // namespace cairn::chat::tool_call
