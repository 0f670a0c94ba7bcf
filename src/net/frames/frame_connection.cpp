#include "net/frames/frame_connection.h"

#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <exception>

#include "base/log.h"
#include "net/coroutines.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
using namespace boost::asio::experimental::awaitable_operators;  // NOLINT: operators only
using boost::system::error_code;

/// Ends the session of a connection, however the connection ends.
class SessionEnd {
 public:
  SessionEnd(ResponseState& output, FrameSession& session) : output_(output), session_(session) {}
  SessionEnd(const SessionEnd&) = delete;
  SessionEnd& operator=(const SessionEnd&) = delete;
  ~SessionEnd() {
    output_.close();
    try {
      session_.closed();
    } catch (...) {
      log_exception("the end of a connection to the frames socket", std::current_exception());
    }
  }

 private:
  ResponseState& output_;
  FrameSession& session_;
};

}  // namespace

// An output stream like that of server-sent events, without HTTP headers.
class FrameConnection::Sender final : public FrameSender {
 public:
  Sender(std::weak_ptr<FrameConnection> connection, std::shared_ptr<ResponseState> output)
      : connection_(std::move(connection)), output_(std::move(output)) {}
  void send(std::string_view message) override {
    if (const auto connection = connection_.lock()) {
      output_->write(encode_frame(connection->reader_.framing(), message));
    }
  }
  void end() override { output_->end(); }
  size_t unsent_bytes() const override { return output_->unsent_bytes(); }
  void on_drained(size_t bytes, std::function<void()> callback) override {
    output_->on_drained(bytes, std::move(callback));
  }
  void post(std::function<void()> work) override { output_->post(std::move(work)); }

 private:
  std::weak_ptr<FrameConnection> connection_;
  std::shared_ptr<ResponseState> output_;
};

// g++ 12 miscompiles temporaries inside some co_await expressions; therefore arguments are named variables below.

FrameConnection::FrameConnection(Socket socket, std::shared_ptr<const FrameService> service, std::string refusal)
    : socket_(std::move(socket)),
      service_(std::move(service)),
      refusal_(std::move(refusal)),
      sent_some_(socket_.get_executor()) {
  error_code ignored;
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
}

void FrameConnection::stop(bool force) {
  error_code ignored;
  if (force) {
    socket_.close(ignored);
  } else {
    socket_.shutdown(Socket::shutdown_receive, ignored);
  }
}

asio::awaitable<void> FrameConnection::run() {
  const auto self = shared_from_this();
  output_ = std::make_shared<ResponseState>(socket_.get_executor(), service_->limits.unsent_bytes_max,
                                            service_->limits.budget);
  output_->begin_events({});
  session_ = service_->handler(std::make_shared<Sender>(weak_from_this(), output_));
  const SessionEnd session_end(*output_, *session_);
  if (refusal_.empty()) {
    co_await (contained(read_messages()) || contained(write_messages()) || watch_for_break());
  } else {
    give_up({Code::kUnavailable, refusal_, {}});
    co_await write_messages();
  }
  if (ended_) co_await drain();
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<void> FrameConnection::read_messages() {
  while (true) {
    const bool more = co_await deliver_messages();
    const bool read = more && co_await read_some();
    if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) co_return;
    if (!read) break;
  }
  if (hung_up()) co_return;
  if (!ended_) {
    for (auto last = reader_.finish(); !last || *last; last = reader_.finish()) {
      if (last) {
        const size_t most = service_->limits.message_bytes_max;
        (*last)->size() > most ? refuse_message((*last)->size(), most) : hand_over(**last);
      } else {
        session_->failed(last.error());
      }
    }
    session_->input_ended();
  }
  co_await wait_until_hung_up();
}

void FrameConnection::hand_over(std::string_view message) {
  std::exception_ptr thrown;
  try {
    session_->message(message, reader_.position());
  } catch (...) {
    thrown = std::current_exception();
  }
  if (!thrown) return;
  log_exception(reader_.position() + " of a client of the frames socket", thrown);
  if (is_out_of_memory(thrown)) {
    session_->failed({Code::kOutOfMemory, "out of memory; try again", reader_.position()});
  } else {
    session_->failed({Code::kInternal, "internal error", reader_.position()});
  }
}

void FrameConnection::refuse_message(size_t bytes, size_t most) {
  if (service_->limits.traffic != nullptr) ++service_->limits.traffic->refused;
  session_->failed(
      {Code::kInvalidArgument,
       fmt::format("the message has {} bytes, but {} are the most here (--frames-message-bytes)", bytes, most),
       reader_.position()});
}

void FrameConnection::give_up(const Error& error) {
  session_->failed(error);
  output_->end();
  ended_ = true;
}

asio::awaitable<bool> FrameConnection::deliver_messages() {
  while (true) {
    // Back-pressure: a client that does not read its answers is not read from.
    while (output_->unsent_bytes() > service_->limits.read_pause_bytes) {
      sent_some_.expires_at(asio::steady_timer::time_point::max());
      co_await sent_some_.async_wait(kTuple);
      if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) co_return false;
    }
    auto message = reader_.next();
    if (message && !*message) co_return true;
    if (const size_t most = service_->limits.message_bytes_max; message && (*message)->size() > most) {
      refuse_message((*message)->size(), most);
    } else if (message) {
      hand_over(**message);
    } else if (!reader_.broken()) {
      session_->failed(message.error());
    } else {
      give_up(message.error());
      co_return false;
    }
  }
}

asio::awaitable<bool> FrameConnection::read_some() {
  std::string bytes(kReadBytes, '\0');
  error_code error;
  size_t count = 0;
  if (!reader_.partial()) {
    const auto outcome = co_await read_unless_idle(bytes);
    if (!outcome) co_return false;
    std::tie(error, count) = *outcome;
  } else {
    auto outcome =
        co_await (socket_.async_read_some(asio::buffer(bytes), kTuple) || timeout(service_->limits.read_timeout));
    if (outcome.index() == 1) {
      const auto seconds = service_->limits.read_timeout.count();
      give_up(
          {Code::kUnavailable, fmt::format("the rest of a message has not come for {} s", seconds), reader_.place()});
      co_return false;
    }
    std::tie(error, count) = std::get<0>(outcome);
  }
  if (error) co_return false;
  moved_ = std::chrono::steady_clock::now();
  if (service_->limits.traffic != nullptr) service_->limits.traffic->received_bytes += static_cast<int64_t>(count);
  reader_.push(std::string_view(bytes).substr(0, count));
  co_return true;
}

asio::awaitable<std::optional<std::tuple<error_code, size_t>>> FrameConnection::read_unless_idle(std::string& bytes) {
  const std::chrono::seconds most = service_->limits.idle_timeout;
  if (most.count() == 0) co_return co_await socket_.async_read_some(asio::buffer(bytes), kTuple);
  while (true) {
    auto outcome = co_await (socket_.async_read_some(asio::buffer(bytes), kTuple) || timeout(most));
    if (outcome.index() == 0) co_return std::get<0>(outcome);
    const bool idle = std::chrono::steady_clock::now() - moved_ >= most && !session_->busy();
    if (!idle) continue;
    give_up({Code::kUnavailable,
             fmt::format("nothing has come for {} s (--frames-idle-seconds); connect again", most.count()),
             reader_.place()});
    co_return std::nullopt;
  }
}

bool FrameConnection::hung_up() {
  pollfd state{socket_.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) != 0;  // true on errors as well
}

/// Used after the end of the client's input, when reading shows nothing more: returns when the client has closed the
/// connection altogether.
asio::awaitable<void> FrameConnection::wait_until_hung_up() {
  while (!hung_up()) {
    const auto [error] = co_await socket_.async_wait(Socket::wait_error, kTuple);
    if (error) co_return;
    if (!hung_up()) co_await timeout(kUrgentPause);  // urgent data also ends the wait, repeatedly
  }
}

asio::awaitable<void> FrameConnection::watch_for_break() {
  output_->break_signal().expires_at(asio::steady_timer::time_point::max());
  if (!output_->broken()) co_await output_->break_signal().async_wait(kTuple);
  if (!output_->overflowed()) co_return;
  log_warning("dropped a client of the frames socket: it left over {} bytes unread, or more than there was memory for",
              service_->limits.unsent_bytes_max);
}

asio::awaitable<void> FrameConnection::write_messages() {
  while (true) {
    while (!output_->has_work()) {
      output_->wake().expires_at(asio::steady_timer::time_point::max());
      co_await output_->wake().async_wait(kTuple);
      if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) co_return;
    }
    const PendingResponse work = output_->take();
    const bool written = co_await write_all(work.bytes);
    if (!written) co_return;
    output_->sent(work.bytes.size());
    moved_ = std::chrono::steady_clock::now();
    if (service_->limits.traffic != nullptr)
      service_->limits.traffic->sent_bytes += static_cast<int64_t>(work.bytes.size());
    sent_some_.cancel();
    if (work.ended) co_return;
  }
}

/// False when the client has gone or has read nothing for write_timeout.
asio::awaitable<bool> FrameConnection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    auto outcome =
        co_await (socket_.async_write_some(asio::buffer(bytes), kTuple) || timeout(service_->limits.write_timeout));
    if (outcome.index() == 1) {
      log_warning("dropped a client of the frames socket: it took nothing for {} s",
                  service_->limits.write_timeout.count());
      co_return false;
    }
    const auto [error, written] = std::get<0>(outcome);
    if (error) co_return false;
    bytes.remove_prefix(written);
  }
  co_return true;
}

asio::awaitable<void> FrameConnection::drain() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  const auto read_all = [&]() -> asio::awaitable<void> {
    std::string dropped(kReadBytes, '\0');
    while (true) {
      const auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(dropped), kTuple);
      if (error) co_return;
    }
  };
  co_await (read_all() || timeout(kDrainTime));
}

}  // namespace cairn::net
