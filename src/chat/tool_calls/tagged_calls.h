/// Calls in which every argument has tags of its own, as in XML.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tool_calls/argument_writer.h"
#include "chat/tool_calls/dsml_escape.h"
#include "chat/tool_calls/format.h"
#include "chat/tool_calls/marker_matcher.h"
#include "chat/tool_calls/tool_call_parser.h"
#include "chat/tool_calls/tool_schemas.h"

namespace cairn::chat::tool_call {

/// Tracks whether JSON, as it comes, is within a string.
class JsonString {
 public:
  void push(char byte) {
    const bool escaped = escaped_;
    escaped_ = inside_ && !escaped && byte == '\\';
    if (byte == '"' && !escaped) inside_ = !inside_;
  }
  bool inside() const { return inside_; }

 private:
  bool inside_ = false;
  bool escaped_ = false;  // whether the next byte is escaped
};

/// Converts the text between a parameter's tags to JSON. Strings are emitted as they come; a value that may have
/// another type is held back to its end, up to kValueBytesMax.
class TaggedValue {
 public:
  /// `padded`: whether one line end after the opening tag and one before the closing tag belong to the format.
  void begin(ValueKind kind, bool padded, std::string& out);
  void push(char byte, std::string& out);
  void end(std::string& out);
  /// The output ended within the value: gives what is held back, as it came.
  void cut(std::string& out) const { out += held_; }

 private:
  void put(char byte, std::string& out);
  void become_string(std::string& out);

  ValueKind kind_ = ValueKind::kUnknown;
  bool padded_ = false;
  bool first_ = true;
  bool line_end_ = false;  // a line end that is held back, as it may be the last byte
  bool is_string_ = false;
  std::string held_;
};

struct TagStyle {
  std::string_view call_open;  ///< text before the name; empty: the block has one call and begins with its name
  std::span<const TagEnd> name_ends;
  std::string_view parameter_open;
  std::string_view key_end;
  std::string_view attributes_end{};  ///< empty: a key has no attributes after it
  std::string_view value_open{};
  std::span<const TagEnd> value_ends;  ///< the closing tag, and texts that show beyond doubt that it was forgotten
  std::string_view call_close;
  std::string_view block_close{};  ///< empty: call_close
  bool padded = false;             ///< see TaggedValue
  bool cdata = false;              ///< whether a value may be wrapped as <![CDATA[...]]>
  bool dsml = false;  ///< whether dsml_escape.h applies to keys and values, and nested parameters are an object
};

class TaggedCalls final : public ToolCallParser {
 public:
  /// `in_call`: whether the text that opened the block was call_open.
  TaggedCalls(const TagStyle& style, bool in_call);
  Step push(char byte, PartWriter& parts) override;
  void cut_call(PartWriter& parts) override;
  std::string unsent(std::string_view since_part) const override;
  bool between_calls() const override { return calls_ > 0 && state_ == State::kBetween; }
  bool in_syntax() const override;

 private:
  enum class State { kBetween, kName, kNameAttributes, kParameters, kKey, kAttributes, kValueOpen, kValue, kJson };
  Step push_between(char byte);
  Step push_name(char byte, PartWriter& parts);
  Step push_parameters(char byte, PartWriter& parts);
  Step push_key(char byte, PartWriter& parts);
  Step push_value(char byte, PartWriter& parts);
  Step push_value_byte(char byte, PartWriter& parts);
  Step push_json(char byte, PartWriter& parts);
  Step follow(TagNext next, PartWriter& parts);
  Step end_call(PartWriter& parts);
  void enter(State state);
  void enter_value();
  bool is_json_value() const;
  void begin_value(std::string& out, const PartWriter& parts);
  void begin_key(std::string& out);
  Step nest(PartWriter& parts);
  void close_nested(std::string& out);
  void put_value(char byte, std::string& out);
  void end_value(std::string& out);

  const TagStyle& style_;
  State state_ = State::kBetween;
  MarkerMatcher matcher_;
  int calls_ = 0;
  size_t between_bytes_ = 0;
  std::string text_;  // text of a name, key or attributes
  std::string name_;
  std::string key_;
  std::string attributes_;
  int parameters_ = 0;
  std::vector<int> outer_;  // parameters_ of the parameters in which the current ones are nested
  std::string blank_;       // whitespace before a value that may turn out to be parameters
  bool is_json_ = false;    // whether all arguments are one JSON object
  bool in_value_ = false;
  size_t cdata_seen_ = 0;
  JsonString json_string_;  // state in a value, or arguments, that are JSON
  TaggedValue value_;
  DsmlUnescaper unescaper_;
  ArgumentWriter json_;
};

}  // namespace cairn::chat::tool_call
