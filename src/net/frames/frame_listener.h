/// The frames socket of a server: accepts connections on the server's event loop. Internal to net/.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "net/descriptors.h"
#include "net/frames/frame_connection.h"
#include "net/frames/frame_server.h"
#include "net/unix_socket.h"

namespace cairn::net {

/// Must be destroyed before `context`. Thread: the server's.
class FrameListener {
 public:
  /// `on_idle` is called whenever the last connection has closed.
  FrameListener(boost::asio::io_context& context, UnixListener listener, const FrameLimits& limits,
                FrameHandler handler, std::function<void()> on_idle);
  ~FrameListener();
  /// Starts accepting connections.
  void run();
  /// Removes the socket's file, and lets every connection finish its answers.
  void stop();
  size_t connections() const { return connections_.size(); }

 private:
  boost::asio::awaitable<void> accept_loop();
  boost::asio::awaitable<void> accept_one();
  void serve(boost::asio::local::stream_protocol::socket socket);
  void forget(uint64_t id);

  boost::asio::io_context& context_;
  UnixListener listener_;
  std::shared_ptr<const FrameService> service_;
  std::function<void()> on_idle_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  std::unordered_map<uint64_t, std::shared_ptr<FrameConnection>> connections_;
  SpareDescriptor spare_;
  uint64_t next_id_ = 0;
};

}  // namespace cairn::net
