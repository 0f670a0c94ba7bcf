/// Reads a block of calls, starting after the text that opened it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "chat/tool_calls/part_writer.h"

namespace cairn::chat::tool_call {

class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;

  enum class Step {
    kMore,
    kDone,    ///< the block ends with this byte
    kUnread,  ///< the block has ended; the last `unread()` bytes, including this one, do not belong to it
    kBad,     ///< this is not a call, or no longer one
  };
  virtual Step push(char byte, PartWriter& parts) = 0;
  size_t unread() const { return unread_; }

  /// The output has ended within a call: gives the rest of its arguments, unclosed, and ends it. May be called only
  /// while one is open.
  virtual void cut_call(PartWriter& parts) = 0;
  /// After kBad within a call: the end of its arguments, as it came, of which no part has been made. `since_part` is
  /// what was read since the last part.
  virtual std::string unsent(std::string_view since_part) const { return std::string(since_part); }
  /// At the end of the output, with no call open: whether the bytes since the last call are only the block's syntax.
  virtual bool between_calls() const = 0;
  /// See OutputParser::in_syntax().
  virtual bool in_syntax() const { return false; }

 protected:
  size_t unread_ = 0;
};

}  // namespace cairn::chat::tool_call
