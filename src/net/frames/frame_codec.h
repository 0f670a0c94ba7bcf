/// Messages in a byte stream: either `length as 4 bytes, least significant first | message`, or a message a line.
///
/// The first four bytes decide. As a length they stay within kFrameBytesMax only if the fourth is zero, which no text
/// has: a stream that begins with "{" or white space and is not a frame is lines, for a person with a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::net {

inline constexpr size_t kFrameBytesMax = 1 << 20;  ///< of a message, in either framing
inline constexpr size_t kFrameHeaderBytes = 4;

enum class Framing { kUndecided, kLength, kLines };

/// The message as it goes out; an undecided framing means lines to nobody, so lengths. `message` has 1 to
/// kFrameBytesMax bytes, and for lines no line feed.
std::string encode_frame(Framing framing, std::string_view message);

/// Cuts a byte stream into messages, however the bytes arrive.
class FrameReader {
 public:
  explicit FrameReader(Framing framing = Framing::kUndecided) : framing_(framing) {}

  void push(std::string_view bytes);
  /// The next whole message; nullopt: more bytes are needed. Errors: kInvalidArgument, a frame without a message (the
  /// next call goes on behind it); kTooLarge, after which nothing can be read (`broken`). `at` says which and where.
  Result<std::optional<std::string>> next();
  /// As next, once no more bytes will come and next has nothing; called until it has nothing either. A last line
  /// without its end is a message, a frame without its end an error (kInvalidArgument).
  Result<std::optional<std::string>> finish();

  Framing framing() const { return framing_; }
  bool broken() const { return broken_; }
  /// Whether a message has begun and not ended.
  bool partial() const { return !broken_ && begin_ < buffer_.size(); }
  /// Which message the last result was: "frame 3" or "line 3", counted from 1; empty lines count too.
  std::string position() const;
  /// Where the next message begins: "frame 4, byte 120 of the connection".
  std::string place() const;

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  Result<std::optional<std::string>> next_frame();
  Result<std::optional<std::string>> next_line();
  /// Consumes `bytes` and returns the message in them.
  std::string take(size_t bytes, std::string_view message);

  Framing framing_;
  std::string buffer_;
  size_t begin_ = 0;     // of what was not consumed
  size_t scanned_ = 0;   // of rest(): holds no line feed
  uint64_t offset_ = 0;  // of buffer_ in the stream
  uint64_t count_ = 0;
  bool broken_ = false;
};

}  // namespace cairn::net
