/// The state between a handler's threads and a connection's coroutine: bytes to be sent, and callbacks.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system/byte_budget.h"
#include "net/http/http_server.h"

namespace cairn::net {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// A whole answer.
struct FullResponse {
  int status = 200;
  std::string content_type;
  std::string body;
  HeaderList headers;
};

/// What the connection finds when it looks: at most one of whole / stream beginning, plus stream bytes.
struct PendingResponse {
  std::optional<FullResponse> whole;
  std::optional<HeaderList> stream_headers;  // the stream begins now
  StreamFormat stream_format;
  std::string bytes;   // of the stream
  bool ended = false;  // nothing follows `bytes`
};

/// Shared by the handler (any thread) and the connection (the server's thread).
class ResponseState final : public std::enable_shared_from_this<ResponseState> {
 public:
  /// `error_body` writes the error that the client gets after an exception, or when an answer does not fit into
  /// `budget`; it outlives this. Null: the connection ends without an answer. `request_id` is for the log.
  ResponseState(boost::asio::any_io_executor executor, size_t unsent_bytes_max, std::shared_ptr<ByteBudget> budget = {},
                const HttpErrorBody* error_body = nullptr, std::string request_id = {});

  const std::string& request_id() const { return request_id_; }
  // Callable from any thread, for HttpResponse.
  void send(FullResponse answer);
  void begin_events(HeaderList headers, StreamFormat form = {});
  void write(std::string_view bytes);
  void end();
  void on_close(std::function<void()> callback);
  void on_end(std::function<void(const ExchangeState&)> callback);
  bool closed() const;
  size_t unsent_bytes() const;
  void on_drained(size_t bytes, std::function<void()> callback);
  void post(std::function<void()> work);

  // Called on the server's thread.
  /// Takes what there is to do; bytes stay counted as unsent until `sent`.
  PendingResponse take();
  /// May run the callback given to on_drained.
  void sent(size_t bytes);
  /// True if take() would find something.
  bool has_work() const;
  /// A timer that is cancelled when there may be work. The connection sets its expiry and waits on it.
  boost::asio::steady_timer& wake() { return wake_; }
  /// Whether more than unsent_bytes_max bytes, or more than the budget has, are unsent: the client is too slow.
  bool overflowed() const;
  /// Whether it overflowed, or an exception occurred in the middle of a stream. `break_signal` is cancelled when that
  /// happens.
  bool broken() const;
  boost::asio::steady_timer& break_signal() { return break_signal_; }
  /// The answer's last byte is written.
  void delivered();
  /// Called when the client is gone: runs the callback, once.
  void close() noexcept;
  /// Handles an exception that no one else handles: writes a line to the log and ends the exchange, with an error if
  /// nothing was answered.
  void thrown(const std::exception_ptr& exception) noexcept;

 private:
  void signal() noexcept;
  void call(const std::function<void()>& callback) noexcept;
  FullResponse error_answer(int status, std::string_view message) const;
  /// Takes `bytes` from the budget, in place of what it had; mutex_ is held.
  bool hold(size_t bytes);
  /// The callback given to on_drained, if its condition holds; mutex_ is held.
  std::function<void()> take_drained();

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer wake_;
  boost::asio::steady_timer break_signal_;
  const size_t unsent_bytes_max_;
  const HttpErrorBody* error_body_;
  const std::string request_id_;
  mutable std::mutex mutex_;
  PendingResponse work_;
  ByteShare share_;  // for the bytes that wait
  size_t unsent_bytes_ = 0;
  ExchangeState state_;
  bool answered_ = false;  // whether send or begin_events was called
  bool streaming_ = false;
  bool overflowed_ = false;
  bool thrown_ = false;
  bool closed_ = false;
  std::function<void()> on_close_;
  std::function<void(const ExchangeState&)> on_end_;
  std::function<void()> on_drained_;
  size_t drained_bytes_ = 0;
};

/// The handler's reference to a response. Releasing the last one without an answer sends 500.
class ResponseHandle final : public HttpResponse {
 public:
  explicit ResponseHandle(std::shared_ptr<ResponseState> state, std::string dropped_body);
  ~ResponseHandle() override;
  std::string_view request_id() const override { return state_->request_id(); }
  void send(int status, std::string_view content_type, std::string body, HeaderList headers) override;
  void begin_events(HeaderList headers, StreamFormat form) override;
  void write(std::string_view bytes) override;
  void end() override;
  void on_close(std::function<void()> callback) override;
  bool closed() const override;
  void on_end(std::function<void(const ExchangeState&)> callback) override { state_->on_end(std::move(callback)); }
  size_t unsent_bytes() const override;
  void on_drained(size_t bytes, std::function<void()> callback) override;
  void post(std::function<void()> work) override;

 private:
  std::shared_ptr<ResponseState> state_;
  std::string dropped_body_;
};

}  // namespace cairn::net
