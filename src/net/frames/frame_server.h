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

namespace cairn::net {

struct FrameLimits {
  size_t connections_max = 1'024;           ///< over: told so and closed
  size_t unsent_bytes_max = 8 << 20;        ///< of one connection; over: the client is too slow and is dropped
  std::shared_ptr<ByteBudget> budget = {};  ///< for what is unsent; over: as if over unsent_bytes_max. Null: no bound
  size_t read_pause_bytes = 1 << 20;        ///< unsent; with more, nothing is read from the client
  std::chrono::seconds read_timeout{60};    ///< without a byte in the middle of a message
  std::chrono::seconds write_timeout{120};  ///< without one byte taken by the client
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

/// What a connection talks to. All calls come on the server's thread and must not block.
class FrameSession {
 public:
  virtual ~FrameSession() = default;
  /// `position`: "frame 3".
  virtual void message(std::string_view text, std::string_view position) = 0;
  /// Something came that is no message, or the connection cannot be served: for telling the client. After kTooLarge and
  /// kUnavailable net/ ends the connection.
  virtual void failed(const Error& error) = 0;
  /// No message will follow, because the client has closed its side for writing or the server stops: the session calls
  /// FrameSender::end when it has said everything.
  virtual void input_ended() = 0;
  /// The connection is over. Called once, last.
  virtual void closed() = 0;
};

/// Called on the server's thread for each connection.
using FrameHandler = std::function<std::shared_ptr<FrameSession>(std::shared_ptr<FrameSender> sender)>;

}  // namespace cairn::net
