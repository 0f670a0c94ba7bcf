/// Reads a block of calls, starting after the text that opened it.
#pragma once

#include <cstddef>
#include <memory>

#include "chat/tool_calls/part_writer.h"

namespace cairn::tool_call {

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

  /// Completes the arguments of an open call and ends it. May be called only while one is open.
  virtual void close_call(PartWriter& parts, CallState state) = 0;
  /// At the end of the output, with no call open: whether the bytes since the last call are only the block's syntax.
  virtual bool between_calls() const = 0;
  /// See OutputParser::in_syntax().
  virtual bool in_syntax() const { return false; }

 protected:
  size_t unread_ = 0;
};

}  // namespace cairn::tool_call
