#include "net/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/text/printable.h"

namespace cairn::net {
namespace {

std::string reason() { return std::generic_category().message(errno); }

Result<sockaddr_un> address_of(const std::string& path) {
  CAIRN_TRY_VOID(check_socket_path(path));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int open_socket(int flags = 0) { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

// Removes a socket file that refuses connections, which a server that had no time to remove it has left.
Result<void> make_way(const std::string& path, const sockaddr_un& address) {
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0) {
    if (errno == ENOENT) return {};
    return fail(Code::kIo, "cannot listen at {}: {}", path, reason());
  }
  if (!S_ISSOCK(file.st_mode)) {
    return fail(Code::kIo, "cannot listen at {}: a file that is not a socket is there; choose another path", path);
  }
  const int probe = open_socket(SOCK_NONBLOCK);  // non-blocking, as a server that hangs has a full queue of connections
  if (probe < 0) return fail(Code::kIo, "cannot open a socket: {}", reason());
  const bool answered = ::connect(probe, generic(address), sizeof address) == 0;
  const int error = answered ? 0 : errno;
  ::close(probe);
  if (answered || error == EAGAIN) {
    return fail(Code::kUnavailable, "cannot listen at {}: another server does; stop it or choose another path", path);
  }
  if (error != ECONNREFUSED && error != ENOENT) {
    return fail(Code::kIo, "cannot listen at {}: {}", path, std::generic_category().message(error));
  }
  if (error == ECONNREFUSED && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(Code::kIo, "cannot replace {}, which a dead server left: {}", path, reason());
  }
  return {};
}

}  // namespace

Result<void> check_socket_path(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail(Code::kInvalidArgument, "the socket's path is empty or has a zero byte");
  }
  if (path.size() > kSocketPathMax) {
    return fail(Code::kInvalidArgument,
                "the socket's path has {} bytes and the system takes {} at most: choose a shorter one, or one relative "
                "to the working folder ({})",
                path.size(), kSocketPathMax, printable(path, kEchoBytesMax));
  }
  return {};
}

Result<UnixListener> UnixListener::listen(const std::string& path, mode_t mode) {
  CAIRN_TRY(const sockaddr_un address, address_of(path));
  CAIRN_TRY_VOID(make_way(path, address));
  UnixListener listener;
  listener.socket_ = open_socket();
  // The file gets the socket's mode less the umask, so there is no moment at which others could connect.
  if (listener.socket_ < 0 || ::fchmod(listener.socket_, mode) != 0 ||
      ::bind(listener.socket_, generic(address), sizeof address) != 0) {
    return fail(Code::kIo, "cannot listen at {}: {}", path, reason());
  }
  struct stat file{};
  bool listens = ::lstat(path.c_str(), &file) == 0;
  listener.path_ = path;
  listener.device_ = file.st_dev;
  listener.inode_ = file.st_ino;
  if (mode != kOwnerOnlySocket) listens = listens && ::chmod(path.c_str(), mode) == 0;
  listens = listens && ::listen(listener.socket_, SOMAXCONN) == 0;
  if (!listens) return fail(Code::kIo, "cannot listen at {}: {}", path, reason());
  return listener;
}

UnixListener::UnixListener(UnixListener&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

UnixListener::~UnixListener() {
  if (socket_ >= 0) ::close(socket_);
  remove_file();
}

int UnixListener::release() { return std::exchange(socket_, -1); }

void UnixListener::remove_file() {
  const std::string path = std::exchange(path_, {});
  struct stat file{};
  if (path.empty() || ::lstat(path.c_str(), &file) != 0) return;
  if (file.st_dev == device_ && file.st_ino == inode_) ::unlink(path.c_str());
}

Result<int> connect_unix(const std::string& path) {
  CAIRN_TRY(const sockaddr_un address, address_of(path));
  const int socket = open_socket();
  if (socket < 0) return fail(Code::kIo, "cannot open a socket: {}", reason());
  if (::connect(socket, generic(address), sizeof address) == 0) return socket;
  const int error = errno;
  ::close(socket);
  if (error == ENOENT) return fail(Code::kNotFound, "there is no socket {}; start cairn serve with --frames", path);
  if (error == ECONNREFUSED) return fail(Code::kUnavailable, "no server listens at {} any more", path);
  return fail(Code::kIo, "cannot connect to {}: {}", path, std::generic_category().message(error));
}

}  // namespace cairn::net
