/// Converts the text between a parameter's tags to JSON. Strings are emitted as they come; a value that may have
/// another type is held back to its end, up to kValueBytesMax.
#pragma once

#include <string>

#include "chat/tool_calls/tool_schemas.h"

namespace cairn::tool_call {

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

}  // namespace cairn::tool_call
