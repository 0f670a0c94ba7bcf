#include "net/frames/frame_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "net/unix_socket.h"

namespace cairn::net {
namespace {

constexpr size_t kReceiveBytes = 16 << 10;

}  // namespace

Result<FrameClient> FrameClient::connect(const std::string& path, Framing framing) {
  CAIRN_TRY(const int socket, connect_unix(path));
  return FrameClient(socket, framing);
}

FrameClient::FrameClient(FrameClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), framing_(other.framing_), reader_(std::move(other.reader_)) {}

FrameClient::~FrameClient() {
  if (socket_ >= 0) ::close(socket_);
}

Result<void> FrameClient::send(std::string_view message) {
  if (message.empty() || message.size() > kFrameBytesMax) {
    return fail(Code::kTooLarge, "a message has 1 to {} bytes, not {}", kFrameBytesMax, message.size());
  }
  const std::string frame = encode_frame(framing_, message);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail(Code::kIo, "cannot send to the server: {}", std::generic_category().message(errno));
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

void FrameClient::end() { ::shutdown(socket_, SHUT_WR); }

Result<std::optional<std::string>> FrameClient::read() {
  while (true) {
    CAIRN_TRY(auto message, reader_.next());
    if (message) return message;
    char bytes[kReceiveBytes];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Code::kIo, "cannot read from the server: {}", std::generic_category().message(errno));
    if (count == 0) return reader_.finish();
    reader_.push({bytes, static_cast<size_t>(count)});
  }
}

}  // namespace cairn::net
