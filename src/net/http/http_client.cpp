#include "net/http/http_client.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <exception>

#include "net/coroutines.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint64_t kReplyBytesMax = 1ull << 30;

struct Call {
  const HttpUrl& url;
  std::string_view method, path, body;
  const std::vector<std::pair<std::string, std::string>>& headers;
  const std::function<bool(std::string_view)>& on_data;
  std::chrono::seconds timeout;
};

http::request<http::string_body> make_message(const Call& call) {
  http::request<http::string_body> message;
  message.method_string({call.method.data(), call.method.size()});
  message.target(call.url.prefix + std::string(call.path));
  message.version(11);
  message.set(http::field::host, fmt::format("{}:{}", call.url.host, call.url.port));
  message.set(http::field::connection, "close");
  for (const auto& [name, value] : call.headers) message.set(name, value);
  message.body() = std::string(call.body);
  message.prepare_payload();
  return message;
}

/// Reads the body in parts, so that an event stream is available as it comes.
asio::awaitable<Result<HttpReply>> read_reply(beast::tcp_stream& stream, const Call& call) {
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(kReplyBytesMax);
  auto [error, bytes] = co_await http::async_read_header(stream, buffer, parser, kTuple);
  if (error) co_return fail(Code::kIo, "no answer from {}:{}: {}", call.url.host, call.url.port, error.message());
  HttpReply reply;
  reply.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    reply.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  std::string part(kReadBytes, '\0');
  while (!parser.is_done()) {
    parser.get().body().data = part.data();
    parser.get().body().size = part.size();
    stream.expires_after(call.timeout);
    std::tie(error, bytes) = co_await http::async_read_some(stream, buffer, parser, kTuple);
    if (error && error != http::error::need_buffer) {
      co_return fail(Code::kIo, "the answer of {}:{} broke off: {}", call.url.host, call.url.port, error.message());
    }
    const std::string_view got(part.data(), part.size() - parser.get().body().size);
    if (reply.status == 200 && call.on_data) {
      if (!got.empty() && !call.on_data(got)) co_return reply;
    } else {
      reply.body += got;
    }
  }
  co_return reply;
}

asio::awaitable<Result<HttpReply>> perform(const Call& call) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  auto [no_host, endpoints] = co_await resolver.async_resolve(call.url.host, std::to_string(call.url.port), kTuple);
  if (no_host) co_return fail(Code::kUnavailable, "cannot resolve {}: {}", call.url.host, no_host.message());
  beast::tcp_stream stream(executor);
  stream.expires_after(call.timeout);
  const auto [refused, endpoint] = co_await stream.async_connect(endpoints, kTuple);
  if (refused) {
    co_return fail(Code::kUnavailable, "cannot connect to {}:{}: {}", call.url.host, call.url.port, refused.message());
  }
  const auto message = make_message(call);
  const auto [unsent, bytes] = co_await http::async_write(stream, message, kTuple);
  // A server may answer with an error and stop reading: its answer is then more useful than the write's failure.
  if (unsent && unsent != asio::error::broken_pipe && unsent != asio::error::connection_reset) {
    co_return fail(Code::kIo, "cannot send to {}:{}: {}", call.url.host, call.url.port, unsent.message());
  }
  co_return co_await read_reply(stream, call);
}

}  // namespace

Result<HttpUrl> parse_http_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) {
    return fail(Code::kUnsupported, "{}: https is not supported here; use http:// and a local address", url);
  }
  if (!url.starts_with(kScheme)) return fail(Code::kInvalidArgument, "{} is not of the form http://HOST:PORT", url);
  std::string_view rest = url.substr(kScheme.size());
  HttpUrl parsed;
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    parsed.prefix = std::string(rest.substr(slash));
    while (parsed.prefix.ends_with('/')) parsed.prefix.pop_back();
    rest = rest.substr(0, slash);
  }
  const size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
    if (error != std::errc() || end != digits.data() + digits.size() || parsed.port == 0) {
      return fail(Code::kInvalidArgument, "{}: \"{}\" is not a port", url, digits);
    }
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty()) return fail(Code::kInvalidArgument, "{} names no host", url);
  parsed.host = std::string(rest);
  return parsed;
}

Result<HttpReply> http_request(const HttpUrl& url, std::string_view method, std::string_view path,
                               std::string_view body, const std::vector<std::pair<std::string, std::string>>& headers,
                               const std::function<bool(std::string_view)>& on_data, std::chrono::seconds timeout) {
  const Call call{url, method, path, body, headers, on_data, timeout};
  asio::io_context context(1);
  Result<HttpReply> reply = fail(Code::kInternal, "no reply");
  std::exception_ptr exception;
  asio::co_spawn(context, perform(call), [&](const std::exception_ptr& thrown, Result<HttpReply> result) {
    exception = thrown;
    reply = std::move(result);
  });
  context.run();
  if (exception) return fail(Code::kInternal, "the request to {}:{} failed", url.host, url.port);
  return reply;
}

std::vector<std::string> EventSplitter::push(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\r') pending_ += c;  // neither our data nor JSON contains it
  }
  std::vector<std::string> events;
  size_t begin = 0;
  for (size_t end; (end = pending_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    std::string data;
    std::string_view rest = std::string_view(pending_).substr(begin, end - begin);
    while (!rest.empty()) {
      const size_t line_end = rest.find('\n');
      std::string_view line = rest.substr(0, line_end);
      rest = line_end == std::string_view::npos ? std::string_view{} : rest.substr(line_end + 1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (!data.empty()) data += '\n';
      data += line;
    }
    if (!data.empty()) events.push_back(std::move(data));
  }
  pending_.erase(0, begin);
  return events;
}

}  // namespace cairn::net
