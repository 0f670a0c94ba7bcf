#include "net/frames/frame_codec.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::net {
namespace {

/// Maximum buffer size that a reader without pending bytes keeps.
constexpr size_t kIdleBytesMax = 64 << 10;

constexpr std::string_view kWhiteSpace = " \t\r\n";

uint32_t length_of(std::string_view header) {
  uint32_t length = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= static_cast<uint32_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  return length;
}

Framing framing_of(std::string_view first) {
  const bool text = first[0] == '{' || kWhiteSpace.contains(first[0]);
  return text && length_of(first) > kFrameBytesMax ? Framing::kLines : Framing::kLength;
}

}  // namespace

std::string encode_frame(Framing framing, std::string_view message) {
  CAIRN_DCHECK(!message.empty() && message.size() <= kFrameBytesMax);
  std::string bytes;
  bytes.reserve(message.size() + kFrameHeaderBytes);
  if (framing == Framing::kLines) {
    bytes += message;
    bytes += '\n';
    return bytes;
  }
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) bytes += static_cast<char>(message.size() >> (8 * i) & 0xFF);
  bytes += message;
  return bytes;
}

void FrameReader::push(std::string_view bytes) {
  if (broken_) return;
  offset_ += begin_;
  if (begin_ == buffer_.size() && buffer_.capacity() > kIdleBytesMax) {
    buffer_ = std::string();
  } else {
    buffer_.erase(0, begin_);
  }
  begin_ = 0;
  buffer_ += bytes;
}

std::string FrameReader::position() const {
  return fmt::format("{} {}", framing_ == Framing::kLines ? "line" : "frame", count_);
}

std::string FrameReader::place() const {
  return fmt::format("{} {}, byte {} of the connection", framing_ == Framing::kLines ? "line" : "frame", count_ + 1,
                     offset_ + begin_);
}

std::string FrameReader::take(size_t bytes, std::string_view message) {
  std::string taken(message);
  begin_ += bytes;
  ++count_;
  return taken;
}

Result<std::optional<std::string>> FrameReader::next() {
  if (broken_) return std::nullopt;
  if (framing_ == Framing::kUndecided) {
    if (rest().size() < kFrameHeaderBytes) return std::nullopt;
    framing_ = framing_of(rest());
  }
  return framing_ == Framing::kLines ? next_line() : next_frame();
}

Result<std::optional<std::string>> FrameReader::next_frame() {
  const std::string_view bytes = rest();
  if (bytes.size() < kFrameHeaderBytes) return std::nullopt;
  const size_t length = length_of(bytes);
  const std::string at = length == 0 || length > kFrameBytesMax ? place() : std::string();
  if (length == 0) {
    take(kFrameHeaderBytes, {});
    return fail_at(at, Code::kInvalidArgument, "a frame of length 0 has no message");
  }
  if (length > kFrameBytesMax) {
    broken_ = true;
    return fail_at(at, Code::kTooLarge,
                   "a frame of {} bytes is over the limit of {}: a frame is its length, as 4 bytes with the least "
                   "significant first, and as many bytes of JSON",
                   length, kFrameBytesMax);
  }
  if (bytes.size() - kFrameHeaderBytes < length) return std::nullopt;
  return take(kFrameHeaderBytes + length, bytes.substr(kFrameHeaderBytes, length));
}

Result<std::optional<std::string>> FrameReader::next_line() {
  while (true) {
    const std::string_view bytes = rest();
    const size_t end = bytes.find('\n', scanned_);
    if (std::min(end, bytes.size()) > kFrameBytesMax) {
      broken_ = true;
      return fail_at(place(), Code::kTooLarge, "a line is over the limit of {} bytes", kFrameBytesMax);
    }
    scanned_ = end == std::string_view::npos ? bytes.size() : 0;
    if (end == std::string_view::npos) return std::nullopt;
    std::string line = take(end + 1, bytes.substr(0, end));
    if (line.find_first_not_of(kWhiteSpace) != std::string::npos) return line;
  }
}

Result<std::optional<std::string>> FrameReader::finish() {
  if (!partial()) return std::nullopt;
  if (framing_ == Framing::kUndecided) framing_ = framing_of(std::string(rest()) + "    ");
  if (framing_ == Framing::kLines) {
    if (!rest().ends_with('\n')) push("\n");
    return next_line();
  }
  const std::string at = place();
  const size_t bytes = rest().size();
  broken_ = true;
  return fail_at(at, Code::kInvalidArgument, "the connection ended {} bytes into a frame", bytes);
}

}  // namespace cairn::net
