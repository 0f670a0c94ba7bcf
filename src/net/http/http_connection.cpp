#include "net/http/http_connection.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <cstring>
#include <exception>

#include "base/log.h"
#include "base/system/random_id.h"
#include "net/coroutines.h"
#include "net/failure_log.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace boost::asio::experimental::awaitable_operators;  // NOLINT: operators only

using boost::system::error_code;

/// Up to this size the body of an answer is copied behind its head, which saves a packet.
constexpr size_t kJoinBytesMax = 16 << 10;
/// What of kSendBufferBytes may lie here beyond what the client's window takes, so that the engine soon sees a client
/// that does not read (tcp(7), TCP_NOTSENT_LOWAT).
constexpr int kNotSentBytes = 16 << 10;
using NotSentMax = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;
/// An interim answer, which every HTTP/1.1 client has to skip, expected or not (RFC 9110, section 15.2).
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// Smaller answers are not compressed, and of others so much at once, in a millisecond or so.
constexpr size_t kCompressedBytesMin = 16 << 10;
constexpr size_t kCompressedSliceBytes = 64 << 10;
constexpr std::string_view kContentEncoding = "Content-Encoding";
constexpr std::string_view kGzipLines = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
/// Header names that a preflight asks for are repeated up to this length.
constexpr size_t kAskedHeadersMax = 1'024;

/// Whether a browser asks what a page may send (Fetch standard, "CORS-preflight request").
bool is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.header("access-control-request-method").empty();
}

HeaderList preflight_headers(const HttpRequest& request) {
  const std::string_view asked = request.header("access-control-request-headers");
  HeaderList headers = {
      {"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
      {"Access-Control-Allow-Headers", asked.empty() || asked.size() > kAskedHeadersMax ? "*" : std::string(asked)},
      {"Access-Control-Max-Age", "3600"}};
  if (request.header("access-control-request-private-network") == "true")
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  return headers;
}

/// Anybody can cause such lines.
void log_failed_handshake(std::string_view remote, std::string_view why) {
  static LogRate rate(kFailureLinesMax, std::chrono::seconds(kFailurePeriodS));
  int64_t left_out = 0;
  if (!rate.admits(std::chrono::steady_clock::now(), left_out)) return;
  log_info("no TLS with {}: {}{}", remote, why.empty() ? "the connection ended" : why,
           left_out == 0 ? "" : fmt::format("; {} others before it have no line", left_out));
}

class CloseAtEnd {
 public:
  explicit CloseAtEnd(ResponseState& response) : response_(response) {}
  CloseAtEnd(const CloseAtEnd&) = delete;
  CloseAtEnd& operator=(const CloseAtEnd&) = delete;
  ~CloseAtEnd() { response_.close(); }

 private:
  ResponseState& response_;
};

// g++ 12 miscompiles temporaries inside some co_await expressions; therefore arguments are named variables below.

}  // namespace

std::string make_request_id() { return random_id("req_"); }

std::string request_id_lines(std::string_view id) {
  return fmt::format("X-Request-Id: {}\r\nRequest-Id: {}\r\n", id, id);
}

std::span<char> ReadAhead::room() {
  if (!bytes_) bytes_ = std::make_unique_for_overwrite<char[]>(kReadBytes);
  if (begin_ > 0) std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return {bytes_.get() + end_, kReadBytes - end_};
}

HttpConnection::HttpConnection(Socket socket, std::string remote, const HttpService& service)
    : socket_(std::move(socket)), service_(service), remote_(std::move(remote)) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  socket_.set_option(NotSentMax(kNotSentBytes), ignored);
  if (service_.tls != nullptr) tls_ = std::make_unique<TlsSession>(*service_.tls, socket_.native_handle());
}

void HttpConnection::stop(bool force) {
  keep_alive_ = false;
  if (!force && in_exchange_) return;
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<void> HttpConnection::run() {
  const auto self = shared_from_this();
  std::exception_ptr thrown;
  try {
    if (tls_ == nullptr || co_await handshake()) co_await serve_requests();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) {
    log_exception("a connection", thrown);
    co_await contained(answer_exception(thrown));
  }
  if (tls_ != nullptr && socket_.is_open()) tls_->end();
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  socket_.close(ignored);
}

asio::awaitable<bool> HttpConnection::wait_for(TlsSession::State state) {
  const auto what =
      state == TlsSession::State::kWaitsForWrite ? asio::socket_base::wait_write : asio::socket_base::wait_read;
  const auto [error] = co_await socket_.async_wait(what, kTuple);
  co_return !error;
}

asio::awaitable<bool> HttpConnection::shake_hands() {
  while (true) {
    const TlsSession::State state = tls_->handshake();
    if (state == TlsSession::State::kDone) co_return true;
    if (state == TlsSession::State::kEnded || state == TlsSession::State::kFailed) co_return false;
    if (!co_await wait_for(state)) co_return false;
  }
}

asio::awaitable<bool> HttpConnection::handshake() {
  const auto agreed = co_await within<bool>(kHandshakeTimeout, shake_hands());
  if (agreed && *agreed) co_return true;
  log_failed_handshake(remote_, agreed ? tls_->failure() : "it took too long");
  if (!tls_->got_plain_http()) co_return false;
  tls_.reset();
  keep_alive_ = false;
  std::string problem = "this port takes HTTPS alone; ask for it with https:// instead of http://";
  co_await answer_error(400, std::move(problem));
  co_return false;
}

asio::awaitable<bool> HttpConnection::read_some_tls() {
  const auto room = ahead_.room();
  // Other connections have their turn before each read, however fast the client sends.
  if (!tls_->has_bytes() && !co_await wait_for(TlsSession::State::kWaitsForRead)) co_return false;
  while (true) {
    size_t bytes = 0;
    const TlsSession::State state = tls_->read(room, bytes);
    if (state == TlsSession::State::kDone) {
      ahead_.came(bytes);
      co_return true;
    }
    input_ended_ = state == TlsSession::State::kEnded;
    if (input_ended_ || state == TlsSession::State::kFailed || !co_await wait_for(state)) co_return false;
  }
}

asio::awaitable<void> HttpConnection::serve_requests() {
  bool again = true;
  while (again && !service_.stopping) {
    auto request = co_await read_request();
    if (!request) co_return;
    in_exchange_ = true;
    again = co_await exchange(std::move(*request));
    if (body_left_ && again) co_await drain();  // so that the answer is not lost to a reset
    in_exchange_ = false;
    again = again && keep_alive_;
  }
}

asio::awaitable<bool> HttpConnection::read_some() {
  if (input_ended_) co_return false;
  if (tls_ != nullptr) co_return co_await read_some_tls();
  const auto room = ahead_.room();
  const auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(room.data(), room.size()), kTuple);
  input_ended_ = error == asio::error::eof;
  if (error) co_return false;
  if (service_.limits.traffic) service_.limits.traffic->received_bytes += static_cast<int64_t>(bytes);
  ahead_.came(bytes);
  co_return true;
}

asio::awaitable<bool> HttpConnection::feed(HttpRequestParser& parser, bool whole) {
  bool continued = false, checked = service_.takes_body == nullptr;
  while (true) {
    ahead_.taken(parser.push(ahead_.view()));
    if (parser.done() || parser.refused() || (!whole && parser.begun())) co_return true;
    if (whole && !checked && parser.head() != nullptr) {
      checked = true;
      body_left_ = !service_.takes_body(*parser.head());
      if (body_left_) co_return true;
    }
    if (whole && parser.wants_continue() && !continued) {
      continued = true;
      if (!co_await write_all(kContinue)) co_return false;
    }
    if (!co_await read_some()) co_return false;
  }
}

asio::awaitable<std::optional<HttpRequest>> HttpConnection::read_request() {
  request_id_ = make_request_id();
  keep_alive_ = answer_begun_ = answer_whole_ = head_only_ = gzip_ = body_left_ = false;
  origin_.clear();
  writer_.reset();
  HttpRequestParser parser(service_.limits);
  const auto begun = co_await within<bool>(service_.limits.idle_timeout, feed(parser, false));
  if (!begun || !*begun) co_return std::nullopt;
  if (!parser.done() && !parser.refused()) {
    const auto whole = co_await within<bool>(service_.limits.read_timeout, feed(parser, true));
    if (!whole) {
      const auto seconds = service_.limits.read_timeout.count();
      std::string problem = fmt::format("the request took longer than {} s to arrive", seconds);
      co_await answer_error(408, std::move(problem));
      co_return std::nullopt;
    }
    if (!*whole) co_return std::nullopt;  // the client is gone
  }
  if (parser.refused()) {
    std::string problem = parser.message().empty() ? "out of memory; try again" : parser.message();
    co_await answer_error(parser.status(), std::move(problem));
    co_return std::nullopt;
  }
  HttpRequest request = parser.take();
  if (body_left_) request.body.clear();
  request.id = request_id_;
  request.remote = remote_;
  chunked_ = parser.modern();
  head_only_ = request.method == "HEAD";
  gzip_ = chunked_ && accepts_gzip(request.header("accept-encoding"));
  if (auto refusal = service_.hosts.refusal(request)) {
    co_await answer_error(403, std::move(*refusal));
    co_return std::nullopt;
  }
  origin_ = service_.hosts.readable_by(request);
  keep_alive_ = parser.keep_alive() && !body_left_;
  co_return std::optional<HttpRequest>(std::move(request));
}

asio::awaitable<void> HttpConnection::answer_error(int status, std::string message) {
  in_exchange_ = true;
  if (service_.limits.traffic) ++service_.limits.traffic->refused;
  FullResponse answer{status, "application/json", service_.error_body(status, message), {}};
  if (status == 503) answer.headers.emplace_back("Retry-After", "1");
  const bool written = co_await respond_whole(answer);
  if (written) co_await drain();
}

asio::awaitable<void> HttpConnection::answer_exception(std::exception_ptr thrown) {
  keep_alive_ = false;
  if (answer_begun_ || !socket_.is_open()) co_return;
  const bool memory = is_out_of_memory(thrown);
  std::string problem = memory ? "out of memory; try again" : "internal error";
  co_await answer_error(memory ? 503 : 500, std::move(problem));
}

asio::awaitable<void> HttpConnection::drain() {
  if (tls_ != nullptr) tls_->end();
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  const auto read_all = [this]() -> asio::awaitable<bool> {
    do {
      ahead_.taken(ahead_.view().size());
    } while (co_await read_some());
    co_return true;
  };
  co_await within<bool>(kDrainTime, read_all());
}

void HttpConnection::call_handler(HttpRequest request, const std::shared_ptr<ResponseState>& response) {
  auto handle = std::make_shared<ResponseHandle>(
      response, service_.error_body(500, "the server dropped this request without an answer"));
  try {
    service_.handler(std::move(request), handle);
  } catch (...) {
    response->thrown(std::current_exception());
  }
}

asio::awaitable<bool> HttpConnection::exchange(HttpRequest request) {
  if (!origin_.empty() && is_preflight(request)) {
    const FullResponse permission{200, {}, {}, preflight_headers(request)};
    co_return co_await respond_whole(permission);
  }
  auto response = std::make_shared<ResponseState>(socket_.get_executor(), service_.limits.unsent_bytes_max,
                                                  service_.limits.budget, &service_.error_body, request_id_);
  // However the exchange ends (the answer is complete, the client left, or the server stops), nothing more can be sent,
  // and callbacks release the request.
  const CloseAtEnd close_at_end(*response);
  probe_ = chunked_ ? kContinue : std::string_view();
  call_handler(std::move(request), response);
  std::exception_ptr thrown;
  const auto answer = [&]() -> asio::awaitable<bool> {
    try {
      co_return co_await respond(*response);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_return false;
  };
  auto outcome = co_await (answer() || watch_for_close(*response) || watch_for_break(*response));
  const bool answered = outcome.index() == 0 && std::get<0>(outcome);
  if (outcome.index() == 0 && thrown) std::rethrow_exception(thrown);
  co_return answered;
}

/// Returns when the client has gone. Meanwhile it reads ahead, which is how a closed connection is noticed. The end of
/// the client's input is ambiguous: a client that has only stopped sending still reads, whereas for one that has gone
/// the system answers with a reset. So a probe is sent, if there is one that does not change the answer.
asio::awaitable<void> HttpConnection::watch_for_close(ResponseState& response) {
  while (!input_ended_ && !ahead_.room().empty()) {
    const bool read = co_await read_some();
    if (!read && !input_ended_) {
      response.close();  // otherwise the exchange is over, and this changes nothing
      co_return;
    }
  }
  if (input_ended_ && probe_.empty() && !answer_whole_) {
    response.close();
    co_return;
  }
  response.wake().cancel();
  co_await wait_until_hung_up();
  response.close();
}

bool HttpConnection::hung_up() {
  pollfd state{socket_.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) != 0;  // true on errors as well
}

asio::awaitable<void> HttpConnection::wait_until_hung_up() {
  while (!hung_up()) {
    const auto [error] = co_await socket_.async_wait(asio::socket_base::wait_error, kTuple);
    if (error) co_return;
    if (!hung_up()) co_await timeout(kUrgentPause);  // urgent data also ends the wait, repeatedly
  }
}

/// Returns when the client leaves too many bytes unread, or an exception occurs in the middle of a stream.
asio::awaitable<void> HttpConnection::watch_for_break(ResponseState& response) {
  response.break_signal().expires_at(asio::steady_timer::time_point::max());
  if (!response.broken()) co_await response.break_signal().async_wait(kTuple);
  if (!response.overflowed()) co_return;  // the answer ended first, or the failure is in the log already
  log_warning("dropped {}: it left over {} bytes of its stream unread, or more than there was memory for", remote_,
              service_.limits.unsent_bytes_max);
}

asio::awaitable<bool> HttpConnection::respond(ResponseState& response) {
  while (!response.has_work()) {
    const bool probing = input_ended_ && !probe_.empty();
    if (probing && !co_await write_all(probe_)) co_return false;
    if (response.has_work()) break;
    // A proxy in between may notice only at the second probe that its own client has gone.
    const auto next_probe = std::chrono::steady_clock::now() + service_.limits.comment_interval;
    response.wake().expires_at(probing ? next_probe : asio::steady_timer::time_point::max());
    co_await response.wake().async_wait(kTuple);
    if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) co_return false;
  }
  PendingResponse work = response.take();
  if (!work.whole) co_return co_await respond_stream(response, std::move(work));
  answer_whole_ = true;
  const bool written = co_await respond_whole(*work.whole);
  if (written) response.delivered();
  co_return written;
}

asio::awaitable<bool> HttpConnection::respond_stream(ResponseState& response, PendingResponse work) {
  const HeaderList headers = work.stream_headers.value_or(HeaderList{});
  const StreamFormat form = work.stream_format;
  probe_ = form.keep_alive;
  if (!co_await begin_stream(headers, form)) co_return false;
  if (!work.bytes.empty() && !co_await write_chunk(work.bytes)) co_return false;
  response.sent(work.bytes.size());
  bool probed = false;
  while (!work.ended) {
    if (!response.has_work()) {
      const bool probing = input_ended_ && !std::exchange(probed, input_ended_) && !form.keep_alive.empty();
      if (probing && !co_await write_chunk(form.keep_alive)) co_return false;
      response.wake().expires_after(service_.limits.comment_interval);
      const auto [error] = co_await response.wake().async_wait(kTuple);
      if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) co_return false;
      const bool silent = !error && !response.has_work() && !form.keep_alive.empty();
      if (silent && !co_await write_chunk(form.keep_alive)) co_return false;
      continue;
    }
    work = response.take();
    if (!work.bytes.empty() && !co_await write_chunk(work.bytes)) co_return false;
    response.sent(work.bytes.size());
  }
  if (!chunked_) {
    response.delivered();
    co_return false;
  }
  const bool written = co_await end_chunks();
  if (written) response.delivered();
  co_return written;
}

std::string HttpConnection::head(int status, const HeaderList& headers) {
  answer_begun_ = true;
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nServer: cairn\r\nConnection: {}\r\n", status,
                                 std::string_view(reason.data(), reason.size()), keep_alive_ ? "keep-alive" : "close");
  text += request_id_lines(request_id_);
  if (!origin_.empty())
    text +=
        fmt::format("Access-Control-Allow-Origin: {}\r\nAccess-Control-Expose-Headers: *\r\nVary: Origin\r\n", origin_);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text;
}

asio::awaitable<bool> HttpConnection::respond_whole(const FullResponse& answer) {
  const bool coded =
      std::ranges::any_of(answer.headers, [](const auto& each) { return each.first == kContentEncoding; });
  const bool compressed = gzip_ && !coded && service_.limits.compression != Compression::kNone && !head_only_ &&
                          answer.body.size() >= kCompressedBytesMin;
  if (compressed) co_return co_await respond_compressed(answer);
  std::string text = head(answer.status, answer.headers);
  if (!answer.content_type.empty()) text += fmt::format("Content-Type: {}\r\n", answer.content_type);
  constexpr int kNoContent = 204, kNotModified = 304;  // whose length is not said
  if (answer.status != kNoContent && answer.status != kNotModified)
    text += fmt::format("Content-Length: {}\r\n", answer.body.size());
  text += "\r\n";
  const std::string_view body = head_only_ ? std::string_view() : std::string_view(answer.body);
  const bool joined = body.size() <= kJoinBytesMax;
  if (joined) text += body;
  const bool written = co_await write_all(text);
  if (!written || joined) co_return written;
  co_return co_await write_all(body);
}

// A slice at a time: other connections have their turn between two.
asio::awaitable<bool> HttpConnection::respond_compressed(const FullResponse& answer) {
  std::string text = head(answer.status, answer.headers);
  text += fmt::format("Content-Type: {}\r\n{}Transfer-Encoding: chunked\r\n\r\n", answer.content_type, kGzipLines);
  if (!co_await write_all(text)) co_return false;
  writer_ = std::make_unique<GzipWriter>();
  for (std::string_view rest = answer.body; !rest.empty();) {
    const std::string_view slice = rest.substr(0, kCompressedSliceBytes);
    rest.remove_prefix(slice.size());
    if (!co_await write_chunk(slice)) co_return false;
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
  }
  co_return co_await end_chunks();
}

asio::awaitable<bool> HttpConnection::begin_stream(const HeaderList& headers, StreamFormat form) {
  if (!chunked_) keep_alive_ = false;
  std::string text = head(200, headers);
  text += fmt::format("Content-Type: {}\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n", form.content_type);
  if (gzip_ && service_.limits.compression == Compression::kAll) {
    writer_ = std::make_unique<GzipWriter>();
    text += kGzipLines;
  }
  text += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  co_return co_await write_all(text);
}

asio::awaitable<bool> HttpConnection::write_chunk(std::string_view bytes) {
  if (!chunked_) co_return co_await write_all(bytes);
  std::string compressed;
  if (writer_) {
    compressed = writer_->add(bytes, true);
    bytes = compressed;
  }
  std::string text = fmt::format("{:x}\r\n", bytes.size());
  text += bytes;
  text += "\r\n";
  co_return co_await write_all(text);
}

asio::awaitable<bool> HttpConnection::end_chunks() {
  std::string text;
  if (writer_) {
    const std::string rest = writer_->finish();
    writer_.reset();
    text = fmt::format("{:x}\r\n{}\r\n", rest.size(), rest);
  }
  text += "0\r\n\r\n";
  co_return co_await write_all(text);
}

asio::awaitable<bool> HttpConnection::wait_writable() {
  const auto [error] = co_await socket_.async_wait(asio::socket_base::wait_write, kTuple);
  co_return !error;
}

/// False when the connection broke or the client read nothing for write_timeout.
asio::awaitable<bool> HttpConnection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    error_code error;
    const size_t written =
        tls_ == nullptr ? socket_.write_some(asio::buffer(bytes), error) : tls_->write_some(bytes, error);
    if (service_.limits.traffic) service_.limits.traffic->sent_bytes += static_cast<int64_t>(written);
    bytes.remove_prefix(written);
    if (error == asio::error::would_block) {
      const auto writable = co_await within<bool>(service_.limits.write_timeout, wait_writable());
      if (!writable || !*writable) co_return false;
    } else if (error) {
      co_return false;
    }
  }
  co_return true;
}

}  // namespace cairn::net
