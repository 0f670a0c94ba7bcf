/// One connection to the frames socket: messages in and out at the same time. Internal to net/.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "net/frames/frame_codec.h"
#include "net/frames/frame_server.h"
#include "net/http/http_response.h"

namespace cairn::net {

/// State shared by all connections of a listener.
struct FrameService {
  FrameLimits limits;
  FrameHandler handler;
};

class FrameConnection final : public std::enable_shared_from_this<FrameConnection> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  /// If `refusal` is not empty, the client gets that error instead of being served.
  FrameConnection(Socket socket, std::shared_ptr<const FrameService> service, std::string refusal = {});
  /// Serves until the client goes or both sides have ended. The coroutine keeps the connection alive.
  boost::asio::awaitable<void> run();
  /// Closes the socket: at once (`force`), or when all of the client's messages are answered.
  void stop(bool force);

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  class Sender;

  /// Returns when the client goes away.
  Awaitable<void> read_messages();
  /// Hands complete messages to the session; false if nothing more can be read.
  Awaitable<bool> deliver_messages();
  /// False at the end of the client's input.
  Awaitable<bool> read_some();
  /// Returns when everything is sent after an end, or when the client does not read.
  Awaitable<void> write_messages();
  Awaitable<bool> write_all(std::string_view bytes);
  Awaitable<void> watch_for_break();
  Awaitable<void> wait_until_hung_up();
  /// Reads and drops what the client still sends, so that a reset does not lose the last message.
  Awaitable<void> drain();
  void hand_over(std::string_view message);
  void refuse_message(size_t bytes, size_t most);
  /// Sends the client the error because of which nothing more is read.
  void give_up(const Error& error);
  /// Reads, but not for longer than it may be idle; nothing: it was.
  Awaitable<std::optional<std::tuple<boost::system::error_code, size_t>>> read_unless_idle(std::string& bytes);
  /// Whether the client has closed the connection altogether, not only its sending side.
  bool hung_up();

  Socket socket_;
  std::shared_ptr<const FrameService> service_;
  std::string refusal_;
  FrameReader reader_;
  std::shared_ptr<ResponseState> output_;
  std::shared_ptr<FrameSession> session_;
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();  // bytes, in either direction
  bool ended_ = false;                                                              // whether give_up() was called
  boost::asio::steady_timer sent_some_;  // cancelled when the client has read some bytes
};

}  // namespace cairn::net
