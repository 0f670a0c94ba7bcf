/// Messages in a byte stream: either `length as 4 bytes, least significant first | message`, or one message per line.
///
/// The first four bytes decide. As a length they are within kFrameBytesMax only if the fourth is zero, which does not
/// occur in text: a stream that begins with "{" or white space and is not a frame consists of lines, typed at a
/// terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::net {

inline constexpr size_t kFrameBytesMax = 1 << 20;  ///< maximum bytes of a message, in either framing
inline constexpr size_t kFrameHeaderBytes = 4;

enum class Framing { kUndecided, kLength, kLines };

/// The bytes of a message on the wire; an undecided framing is encoded with lengths, as no client has chosen lines.
/// `message` has 1 to kFrameBytesMax bytes and, for lines, no line feed.
std::string encode_frame(Framing framing, std::string_view message);

/// Splits a byte stream into messages, however the bytes arrive.
class FrameReader {
 public:
  explicit FrameReader(Framing framing = Framing::kUndecided) : framing_(framing) {}

  void push(std::string_view bytes);
  /// The next complete message; nullopt: more bytes are needed. Errors: kInvalidArgument (a frame without a message;
  /// the next call continues after it); kTooLarge, after which nothing can be read (`broken`). `at` gives the message
  /// and its place.
  Result<std::optional<std::string>> next();
  /// Gives the remaining messages once no more bytes will come and next() has returned nullopt; called until it returns
  /// nullopt too. A last line without its end is a message, a frame without its end is an error (kInvalidArgument).
  Result<std::optional<std::string>> finish();

  Framing framing() const { return framing_; }
  bool broken() const { return broken_; }
  /// Whether a message is incomplete.
  bool partial() const { return !broken_ && begin_ < buffer_.size(); }
  /// Position of the last result: "frame 3" or "line 3", counted from 1; empty lines count too.
  std::string position() const;
  /// Position of the next message: "frame 4, byte 120 of the connection".
  std::string place() const;

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  Result<std::optional<std::string>> next_frame();
  Result<std::optional<std::string>> next_line();
  /// Consumes `bytes` and returns the message in them.
  std::string take(size_t bytes, std::string_view message);

  Framing framing_;
  std::string buffer_;
  size_t begin_ = 0;     // begin of the bytes that are not consumed
  size_t scanned_ = 0;   // bytes of rest() that are known to hold no line feed
  uint64_t offset_ = 0;  // offset of buffer_ in the stream
  uint64_t count_ = 0;
  bool broken_ = false;
};

}  // namespace cairn::net
