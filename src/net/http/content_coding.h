/// Compressed bodies (RFC 9110, section 8.4): gzip and zstd of requests, gzip of answers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::net {

enum class ContentCoding { kIdentity, kGzip, kZstd };

/// For the Accept-Encoding of an answer that refuses another coding.
inline constexpr std::string_view kContentCodings = "gzip, zstd, identity";
/// A zstd frame may not ask for a larger window (RFC 9659): the power of two.
inline constexpr int kZstdWindowLog = 23;

/// The coding that a Content-Encoding header names; an empty one is none. nullopt: an unknown one, or several.
std::optional<ContentCoding> content_coding(std::string_view header);
/// Whether an Accept-Encoding header takes gzip (RFC 9110, section 12.5.3).
bool accepts_gzip(std::string_view header);

/// Whether there is memory for a body that has `bytes` so far.
using RoomFor = std::function<bool(size_t bytes)>;
/// The body itself, several members or frames joined. Errors: kInvalidArgument (not of that coding, cut, or more
/// behind it); kTooLarge (over `bytes_max`) and kOutOfMemory (`room_for` has said no), both as soon as that is seen.
Result<std::string> decode_body(ContentCoding coding, std::string_view bytes, size_t bytes_max,
                                const RoomFor& room_for);

/// Compresses an answer piece by piece.
class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  /// What can be sent now. `flush`: all of `bytes` is in it, so that a reader sees them at once.
  std::string add(std::string_view bytes, bool flush);
  /// The end of the body.
  std::string finish();

 private:
  struct State;
  std::string run(std::string_view bytes, int mode);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::net
