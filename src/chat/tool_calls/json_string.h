/// Tracks whether JSON, as it comes, is within a string.
#pragma once

namespace cairn::tool_call {

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

}  // namespace cairn::tool_call
