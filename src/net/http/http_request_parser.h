/// One HTTP/1.1 request out of a connection's bytes, by RFC 9112 to the letter: where a lenient reader and a strict one
/// would disagree about where a request ends, it is refused. No sockets here: fuzz/http_fuzz.cpp and tests feed it too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/system/byte_budget.h"
#include "net/http/http_server.h"

namespace cairn::net {

/// Fields of a head, and of a trailer; over: 431.
inline constexpr size_t kFieldsMax = 256;

/// Thread: one at a time.
class HttpRequestParser {
 public:
  /// `limits` outlives it. What the request holds is a share of limits.budget.
  explicit HttpRequestParser(const HttpLimits& limits);

  /// Takes bytes and returns how many: all, unless the request ends before (those after it are the next request's) or
  /// is refused. Never throws: without memory the request is refused (503). Linear in what comes, however it is cut.
  size_t push(std::string_view bytes) noexcept;

  /// A byte of the request has come. Empty lines before it are none (RFC 9112, section 2.2).
  bool begun() const { return state_ != State::kBegin || !line_.empty(); }
  bool done() const { return state_ == State::kDone; }
  /// Nothing more is taken; the connection cannot be used again, for nobody knows where the next request begins.
  bool refused() const { return state_ == State::kRefused; }
  /// Of the refusal: 400, 413, 431, 501, 503 or 505.
  int status() const { return status_; }
  /// Of the refusal, for the client. Empty where there was no memory for words.
  const std::string& message() const { return message_; }

  /// The head is there, no byte of the body is, and the client waits to be told that it may send it.
  bool wants_continue() const {
    return wants_continue_ && body_untouched_ && line_.empty() &&
           (state_ == State::kBody || state_ == State::kChunkSize);
  }
  bool keep_alive() const { return keep_alive_; }
  /// The client speaks HTTP/1.1: it takes chunks and interim answers.
  bool modern() const { return modern_; }

  /// The request, once done. Its id and remote are for the caller to fill in.
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
  /// A header of the head, or one of the trailer, which is checked and dropped. False if refused.
  bool field(std::string_view text);
  void end_head();
  bool check_host();
  bool read_connection();
  /// Body or none (RFC 9112, section 6.3).
  void frame_body();
  void check_coding(std::string_view codings);
  void read_length(std::string_view digits);
  void chunk_size(std::string_view text);
  /// Has memory for so many more bytes of the body; false if refused.
  bool make_room(size_t bytes);
  /// Takes what the request holds, with a body of so many bytes, from the budget; false if refused.
  bool charge(size_t body_bytes);
  void refuse(int status, std::string message);
  /// The values of all fields of that name, with commas between; nullopt if there is none.
  std::optional<std::string> combined(std::string_view name) const;
  size_t count(std::string_view name) const;

  const HttpLimits& limits_;
  State state_ = State::kBegin;
  HttpRequest request_;
  std::string line_;        // its bytes so far
  std::string authority_;   // of a target in absolute form
  size_t head_bytes_ = 0;   // head, trailer, extensions of chunks and zeros before their sizes
  size_t fields_ = 0;       // of the head, then of the trailer
  uint64_t remaining_ = 0;  // bytes of the body, or of the chunk
  uint64_t length_ = 0;     // of the body, if its head says so
  bool modern_ = true;
  bool keep_alive_ = false;
  bool wants_continue_ = false;
  bool body_untouched_ = true;
  int status_ = 0;
  std::string message_;
};

}  // namespace cairn::net
