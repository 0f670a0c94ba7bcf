/// A small client of the frames socket for `cairn frames` and tests: plain blocking calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/frames/frame_codec.h"

namespace cairn::net {

/// Not thread-safe, except that one thread may send while another reads.
class FrameClient {
 public:
  /// `framing`: kLength or kLines, in which the client sends. Errors: those of connect_unix.
  static Result<FrameClient> connect(const std::string& path, Framing framing = Framing::kLength);
  FrameClient(FrameClient&& other) noexcept;
  FrameClient& operator=(FrameClient&&) = delete;
  ~FrameClient();

  /// Errors: kTooLarge (over kFrameBytesMax), kIo (the server closed the connection).
  Result<void> send(std::string_view message);
  /// Closes the sending side; the server answers the messages sent so far and closes.
  void end();
  /// The next message; nullopt once the server has closed the connection. Errors: kIo, kTooLarge, kInvalidArgument (the
  /// server does not speak this protocol).
  Result<std::optional<std::string>> read();

 private:
  FrameClient(int socket, Framing framing) : socket_(socket), framing_(framing), reader_(framing) {}

  int socket_;
  Framing framing_;
  FrameReader reader_;
};

}  // namespace cairn::net
