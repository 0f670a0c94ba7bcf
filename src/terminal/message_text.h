/// What is typed -> the message that is meant: several lines by a backslash at a line's end, or between """ and """.
#pragma once

#include <string>
#include <string_view>

namespace cairn::terminal {

/// What begins and ends a block of lines.
inline constexpr std::string_view kBlockMark = "\"\"\"";

/// Whether `typed` ends with a backslash that asks for another line. Two of them are two backslashes, and in a block
/// all of them are text.
bool ends_with_continuation(std::string_view typed);
/// Whether `typed` begins with a block that has not ended. A command's block is its argument: /system """...
bool in_block(std::string_view typed);
/// The text without the marks of its block, if it is one.
std::string without_block(std::string_view typed);

/// Puts lines together to messages, where no editor does. Lines may end with CR LF.
class LineJoiner {
 public:
  /// Whether the line completes a message.
  bool add(std::string_view line);
  /// What has come since the last call: the message, or at the end of the input the beginning of one.
  std::string take();
  bool empty() const { return empty_; }

 private:
  std::string text_;
  bool empty_ = true;
};

}  // namespace cairn::terminal
