/// Parses one HTTP/1.1 request from a connection's bytes, strictly by RFC 9112: a request about whose end a lenient and
/// a strict parser would disagree is refused. It has no sockets: fuzz/http_fuzz.cpp and tests feed it too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/system/byte_budget.h"
#include "net/http/http_server.h"

namespace cairn::net {

/// Maximum fields of a head, and of a trailer; over it: 431.
inline constexpr size_t kFieldsMax = 256;

/// Not thread-safe.
class HttpRequestParser {
 public:
  /// `limits` outlives it. The memory of the request is a share of limits.budget.
  explicit HttpRequestParser(const HttpLimits& limits);

  /// Consumes bytes and returns how many: all, unless the request ends before (the rest belongs to the next request) or
  /// is refused. Never throws: without memory the request is refused (503). Takes linear time, however the bytes are
  /// cut.
  size_t push(std::string_view bytes) noexcept;

  /// Whether a byte of the request has come. Empty lines before it do not count (RFC 9112, section 2.2).
  bool begun() const { return state_ != State::kBegin || !line_.empty(); }
  bool done() const { return state_ == State::kDone; }
  /// Whether the request was refused: no more bytes are consumed, and the connection cannot be used again, since the
  /// next request's beginning is unknown.
  bool refused() const { return state_ == State::kRefused; }
  /// Status of the refusal: 400, 413, 431, 501, 503 or 505.
  int status() const { return status_; }
  /// Message of the refusal, for the client. Empty if there was no memory for it.
  const std::string& message() const { return message_; }

  /// Whether the head is complete, no byte of the body has come, and the client waits for "100 Continue".
  bool wants_continue() const {
    return wants_continue_ && body_untouched_ && line_.empty() &&
           (state_ == State::kBody || state_ == State::kChunkSize);
  }
  bool keep_alive() const { return keep_alive_; }
  /// Whether the client speaks HTTP/1.1, so that it understands chunks and interim answers.
  bool modern() const { return modern_; }

  /// The request so far, if its head is complete and its body is not; else null.
  const HttpRequest* head() const {
    return state_ == State::kBody || state_ == State::kChunkSize || state_ == State::kChunk ? &request_ : nullptr;
  }

  /// The request, once done, or once there is a head. The caller fills in its id and remote.
  HttpRequest take() { return std::move(request_); }

 private:
  enum class State { kBegin, kFields, kBody, kChunkSize, kChunk, kChunkEnd, kTrailer, kDone, kRefused };

  size_t take_line(std::string_view bytes);
  size_t take_body(std::string_view bytes);
  size_t line_room() const;
  void refuse_long_line();
  void line(std::string_view text);
  void request_line(std::string_view text);
  void target(std::string_view text);
  /// Parses a header of the head, or one of the trailer, which is checked and dropped. False if refused.
  bool field(std::string_view text);
  void end_head();
  bool check_host();
  bool read_connection();
  /// Determines whether and how the body is sent (RFC 9112, section 6.3).
  void frame_body();
  void check_coding(std::string_view codings);
  void read_length(std::string_view digits);
  void chunk_size(std::string_view text);
  /// Makes room for `bytes` more bytes of the body; false if refused.
  bool make_room(size_t bytes);
  /// Takes the memory of the request, with a body of `body_bytes`, from the budget; false if refused.
  bool charge(size_t body_bytes);
  void refuse(int status, std::string message);
  /// The values of all fields of that name, with commas between; nullopt if there is none.
  std::optional<std::string> combined(std::string_view name) const;
  size_t count(std::string_view name) const;

  const HttpLimits& limits_;
  State state_ = State::kBegin;
  HttpRequest request_;
  std::string line_;        // its bytes so far
  std::string authority_;   // from a target in absolute form
  size_t head_bytes_ = 0;   // bytes of the head, of trailers, of chunk extensions, and zeros before chunk sizes
  size_t fields_ = 0;       // number of fields of the head, then of the trailer
  uint64_t remaining_ = 0;  // remaining bytes of the body, or of the chunk
  uint64_t length_ = 0;     // length of the body, if the head gives it
  bool modern_ = true;
  bool keep_alive_ = false;
  bool wants_continue_ = false;
  bool body_untouched_ = true;
  int status_ = 0;
  std::string message_;
};

}  // namespace cairn::net
