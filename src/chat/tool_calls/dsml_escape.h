/// Escapes DSML's own tags in an argument's text for a prompt, and unescapes them.
///
/// DSML has no escapes: values are written unchanged. Only text that would be read as a tag, "<" or "</" before the
/// mark, begins with an entity instead: "&lt;/｜DSML｜parameter>"; if that is the literal text, an additional "amp;"
/// follows the "&".
#pragma once

#include <string>
#include <string_view>

namespace cairn::chat::tool_call {

inline constexpr std::string_view kDsmlMark = "｜DSML｜";

std::string escape_dsml(std::string_view text);
/// Escapes a value between quotes in a tag: & < > " become entities.
std::string escape_dsml_attribute(std::string_view text);
std::string unescape_dsml_attribute(std::string_view text);

/// Unescapes a value byte by byte.
class DsmlUnescaper {
 public:
  void push(char byte, std::string& out);
  /// Ends the text: what was held back is output unchanged.
  void flush(std::string& out);

 private:
  enum class State { kText, kEntity, kDeepEntity };
  State state_ = State::kText;  // kDeepEntity: the "&" was output, and the last of one or more "amp;" is held back
  std::string held_;            // bytes after the "&", or after that "amp;"
};

}  // namespace cairn::chat::tool_call
