#include "net/http_connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>
#include <exception>
#include <random>

#include "base/log.h"
#include "net/percent.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using namespace boost::asio::experimental::awaitable_operators;  // NOLINT: operators only

using boost::system::error_code;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

/// Pipelined requests are read ahead this far while an answer is in progress; then TCP holds the client back.
constexpr size_t kReadAheadMax = 256 << 10;
constexpr size_t kReadBytes = 16 << 10;
/// What the system may hold for a client that does not read (it doubles this); left alone it grows to megabytes.
constexpr int kSendBufferBytes = 128 << 10;
/// After an error answer the rest of the request is read and dropped this long, so that the answer is not lost to a
/// reset.
constexpr std::chrono::milliseconds kDrainTime{1'000};

/// Returns after `time`; for use with || as a time-out.
asio::awaitable<void> timeout(std::chrono::steady_clock::duration time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(kTuple);
}

constexpr int kClientGone = -1;

/// Status and message for a request that could not be read; kClientGone where nobody is left to tell.
std::pair<int, std::string> describe(error_code error, const HttpLimits& limits) {
  if (error == http::error::body_limit) {
    return {413, fmt::format("the body is over the limit of {} bytes", limits.body_bytes_max)};
  }
  if (error == http::error::header_limit) {
    return {431, fmt::format("the headers are over the limit of {} bytes", limits.header_bytes_max)};
  }
  const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                         error != http::error::end_of_stream && error != http::error::partial_message;
  if (malformed) return {400, "not a well-formed HTTP/1.1 request: " + error.message()};
  return {kClientGone, {}};
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

// g++ 12 miscompiles temporaries inside some co_await expressions: below, what a call needs has a name first.

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::string make_request_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req_{:016x}{:016x}", random(), random());
}

std::string request_id_lines(std::string_view id) {
  return fmt::format("X-Request-Id: {}\r\nRequest-Id: {}\r\n", id, id);
}

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, const HttpService& service)
    : socket_(std::move(socket)), service_(service) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  const auto peer = socket_.remote_endpoint(ignored);
  if (!ignored) remote_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
}

void HttpConnection::stop(bool force) {
  keep_alive_ = false;
  if (!force && in_exchange_) return;
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<void> HttpConnection::run() {
  const auto self = shared_from_this();
  while (co_await wait_for_request()) {
    in_exchange_ = true;
    auto request = co_await read_request();
    if (!request) break;
    const bool again = co_await exchange(std::move(*request));
    in_exchange_ = false;
    if (!again || !keep_alive_ || service_.stopping) break;
  }
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

asio::awaitable<bool> HttpConnection::wait_for_request() {
  if (buffer_.size() > 0) co_return true;
  auto outcome =
      co_await (socket_.async_read_some(buffer_.prepare(kReadBytes), kTuple) || timeout(service_.limits.idle_timeout));
  if (outcome.index() == 1) co_return false;
  const auto [error, bytes] = std::get<0>(outcome);
  if (error) co_return false;
  buffer_.commit(bytes);
  co_return true;
}

asio::awaitable<std::optional<HttpRequest>> HttpConnection::read_request() {
  request_id_ = make_request_id();
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(service_.limits.header_bytes_max));
  parser.body_limit(service_.limits.body_bytes_max);

  const auto read = [&]() -> asio::awaitable<error_code> {
    auto [error, bytes] = co_await http::async_read_header(socket_, buffer_, parser, kTuple);
    if (error) co_return error;
    if (lower(parser.get()[http::field::expect]) == "100-continue" && buffer_.size() == 0) {
      if (!co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return error_code(asio::error::broken_pipe);
    }
    std::tie(error, bytes) = co_await http::async_read(socket_, buffer_, parser, kTuple);
    co_return error;
  };
  auto outcome = co_await (read() || timeout(service_.limits.read_timeout));
  keep_alive_ = false;
  int status = 0;
  std::string problem;
  if (outcome.index() == 1) {
    status = 408;
    problem = fmt::format("the request took longer than {} s to arrive", service_.limits.read_timeout.count());
  } else if (const error_code error = std::get<0>(outcome)) {
    std::tie(status, problem) = describe(error, service_.limits);
  }
  if (status == kClientGone) co_return std::nullopt;
  if (status != 0) {
    co_await answer_error(status, problem);
    co_return std::nullopt;
  }
  auto& message = parser.get();
  const std::string target(message.target());
  const size_t mark = target.find('?');
  auto path = percent_decode(std::string_view(target).substr(0, mark));
  if (!path) {
    problem = "the request path has a '%' that two hexadecimal digits do not follow";
    co_await answer_error(400, problem);
    co_return std::nullopt;
  }
  HttpRequest request;
  request.id = request_id_;
  request.method = std::string(message.method_string());
  request.path = std::move(*path);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  for (const auto& field : message)
    request.headers.emplace_back(lower(field.name_string()), std::string(field.value()));
  request.remote = remote_;
  keep_alive_ = message.keep_alive();
  chunked_ = message.version() >= 11;
  head_only_ = message.method() == http::verb::head;
  request.body = std::move(message.body());
  co_return request;
}

asio::awaitable<void> HttpConnection::answer_error(int status, const std::string& message) {
  head_only_ = false;
  const WholeAnswer answer{status, "application/json", service_.error_body(status, message), {}};
  const bool written = co_await respond_whole(answer);
  if (written) co_await drain();
}

asio::awaitable<void> HttpConnection::drain() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  const auto read_all = [&]() -> asio::awaitable<void> {
    char dropped[kReadBytes];
    while (true) {
      const auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(dropped), kTuple);
      if (error) co_return;
    }
  };
  co_await (read_all() || timeout(kDrainTime));
}

asio::awaitable<bool> HttpConnection::exchange(HttpRequest request) {
  auto response =
      std::make_shared<ResponseState>(socket_.get_executor(), service_.limits.unsent_bytes_max, request_id_);
  auto handle = std::make_shared<ResponseHandle>(
      response, service_.error_body(500, "the server dropped this request without an answer"));
  try {
    service_.handler(std::move(request), handle);
  } catch (const std::exception& error) {
    log_error("{} from {} failed: {}", request_id_, remote_, error.what());
    handle->send(500, "application/json", service_.error_body(500, "internal error"), {});
  }
  handle.reset();
  // Whether the answer was complete, the client left or the server stops: nothing more can be sent, and whoever listens
  // lets go of the request.
  const CloseAtEnd close_at_end(*response);
  auto outcome = co_await (respond(*response) || watch_for_close(*response) || watch_for_overflow(*response));
  co_return outcome.index() == 0 && std::get<0>(outcome);
}

/// Ends when the client closes its side. Reads ahead meanwhile, for that is how closing shows.
asio::awaitable<void> HttpConnection::watch_for_close(ResponseState& response) {
  while (buffer_.size() < kReadAheadMax) {
    const auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kTuple);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      response.close();
      co_return;
    }
    buffer_.commit(bytes);
  }
  asio::steady_timer never(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
  co_await never.async_wait(kTuple);
}

/// Ends when the client lets too much pile up.
asio::awaitable<void> HttpConnection::watch_for_overflow(ResponseState& response) {
  response.overflow_signal().expires_at(asio::steady_timer::time_point::max());
  if (!response.overflowed()) co_await response.overflow_signal().async_wait(kTuple);
  if (!response.overflowed()) co_return;  // the answer ended first
  log_warning("dropped {}: it left over {} bytes of its stream unread", remote_, service_.limits.unsent_bytes_max);
}

asio::awaitable<bool> HttpConnection::respond(ResponseState& response) {
  while (!response.has_work()) {
    response.wake().expires_at(asio::steady_timer::time_point::max());
    co_await response.wake().async_wait(kTuple);
    if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) co_return false;
  }
  ResponseWork work = response.take();
  if (work.whole) {
    const bool written = co_await respond_whole(*work.whole);
    co_return written;
  }
  const HeaderList headers = work.stream_headers.value_or(HeaderList{});
  const StreamForm form = work.stream_form;
  if (!co_await begin_stream(headers, form)) co_return false;
  if (!work.bytes.empty() && !co_await write_chunk(work.bytes)) co_return false;
  response.sent(work.bytes.size());
  const auto comment_interval = service_.limits.comment_interval;
  while (!work.ended) {
    if (!response.has_work()) {
      response.wake().expires_after(comment_interval);
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
  if (chunked_) co_return co_await write_all("0\r\n\r\n");
  co_return false;
}

std::string HttpConnection::head(int status, const HeaderList& headers) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nServer: cairn\r\nConnection: {}\r\n", status,
                                 std::string_view(reason.data(), reason.size()), keep_alive_ ? "keep-alive" : "close");
  text += request_id_lines(request_id_);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text;
}

asio::awaitable<bool> HttpConnection::respond_whole(const WholeAnswer& answer) {
  std::string text = head(answer.status, answer.headers);
  if (!answer.content_type.empty()) text += fmt::format("Content-Type: {}\r\n", answer.content_type);
  text += fmt::format("Content-Length: {}\r\n\r\n", answer.body.size());
  if (!head_only_) text += answer.body;
  co_return co_await write_all(text);
}

asio::awaitable<bool> HttpConnection::begin_stream(const HeaderList& headers, StreamForm form) {
  if (!chunked_) keep_alive_ = false;
  std::string text = head(200, headers);
  text += fmt::format("Content-Type: {}\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n", form.content_type);
  text += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  co_return co_await write_all(text);
}

asio::awaitable<bool> HttpConnection::write_chunk(std::string_view bytes) {
  if (!chunked_) co_return co_await write_all(bytes);
  std::string text = fmt::format("{:x}\r\n", bytes.size());
  text += bytes;
  text += "\r\n";
  co_return co_await write_all(text);
}

/// False when the connection broke or the client took nothing for write_timeout.
asio::awaitable<bool> HttpConnection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    auto outcome =
        co_await (socket_.async_write_some(asio::buffer(bytes), kTuple) || timeout(service_.limits.write_timeout));
    if (outcome.index() == 1) co_return false;
    const auto [error, written] = std::get<0>(outcome);
    if (error) co_return false;
    bytes.remove_prefix(written);
  }
  co_return true;
}

}  // namespace cairn::net
