/// Framed messages over a Unix socket: whole messages in, whole messages out, in any order. See frame_codec.h for the
/// bytes, HttpServer::listen_frames for how to serve.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/system/byte_budget.h"
#include "net/client_output.h"
#include "net/frames/frame_codec.h"
#include "net/traffic.h"
#include "net/unix_socket.h"

namespace cairn::net {

struct FrameLimits {
  mode_t mode = kOwnerOnlySocket;             ///< of the socket's file
  size_t connections_max = 1'024;             ///< more are refused with an error
  size_t message_bytes_max = kFrameBytesMax;  ///< a longer message of a client is refused; the connection stays
  size_t unsent_bytes_max = 8 << 20;          ///< per connection; a client that leaves more unread is dropped
  std::shared_ptr<ByteBudget> budget = {};  ///< for unsent bytes; beyond it as beyond unsent_bytes_max. Null: unlimited
  size_t read_pause_bytes = 1 << 20;        ///< unsent bytes above which nothing is read from the client
  std::chrono::seconds read_timeout{60};    ///< maximum pause in the middle of a message
  std::chrono::seconds write_timeout{120};  ///< maximum time in which the client reads no byte
  /// Time without a byte in either direction and without a request after which a connection is closed; 0: never.
  std::chrono::seconds idle_timeout{0};
  std::shared_ptr<Traffic> traffic = {};  ///< counts here; null: nowhere
};

/// The way back to one client. What is sent after the end, or after the client has gone, is dropped. All are dropped
/// before the server is destroyed.
class FrameSender : public ClientOutput {
 public:
  /// Sends a message of 1 to kFrameBytesMax bytes, without line feeds. Server's thread only.
  virtual void send(std::string_view message) = 0;
  /// Closes the connection once everything is sent. Server's thread only.
  virtual void end() = 0;
};

/// The receiver of a connection's messages. All calls come on the server's thread and must not block.
class FrameSession {
 public:
  virtual ~FrameSession() = default;
  /// `position`: "frame 3".
  virtual void message(std::string_view text, std::string_view position) = 0;
  /// Called when the input is not a valid message, or the connection cannot be served, to tell the client. After
  /// kTooLarge and kUnavailable net/ ends the connection.
  virtual void failed(const Error& error) = 0;
  /// Whether anything is going on that the client waits for.
  virtual bool busy() const = 0;
  /// Called when no message will follow, because the client has closed its sending side or the server stops: the
  /// session calls FrameSender::end when it has sent everything.
  virtual void input_ended() = 0;
  /// Called once, last, when the connection has ended.
  virtual void closed() = 0;
};

/// Creates the session of a connection. Called on the server's thread for each connection.
using FrameHandler = std::function<std::shared_ptr<FrameSession>(std::shared_ptr<FrameSender> sender)>;

}  // namespace cairn::net
