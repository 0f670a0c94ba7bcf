/// Text that holds DSML's own tags within an argument: as it is written in a prompt, and back.
///
/// DSML has no escapes: values stand as they are. Only what would read as a tag, "<" or "</" before its mark, begins
/// with an entity instead: "&lt;/｜DSML｜parameter>"; and where that itself is meant, one "amp;" more stands after the
/// "&".
#pragma once

#include <string>
#include <string_view>

namespace cairn::tool_call {

inline constexpr std::string_view kDsmlMark = "｜DSML｜";

std::string escape_dsml(std::string_view text);
/// What stands between quotes in a tag: & < > " as entities.
std::string escape_dsml_attribute(std::string_view text);
std::string unescape_dsml_attribute(std::string_view text);

/// The other way round, byte by byte.
class DsmlUnescaper {
 public:
  void push(char byte, std::string& out);
  /// The text has ended: what was held back is what it looks like.
  void flush(std::string& out);

 private:
  enum class State { kText, kEntity, kDeepEntity };
  State state_ = State::kText;  // kDeepEntity: "&" is out, and the last of one or more "amp;" is held back
  std::string held_;            // after the "&", or after that "amp;"
};

}  // namespace cairn::tool_call
