/// Unix sockets: listening at a path and connecting to one.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <string>

#include "base/error.h"

namespace cairn::net {

/// Maximum bytes of a socket's path: the system's field for it, less its terminating zero.
inline constexpr size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;

/// Only the user who runs the program may connect.
inline constexpr mode_t kOwnerOnlySocket = 0600;

/// Errors: kInvalidArgument (empty, or too long, with both lengths).
Result<void> check_socket_path(const std::string& path);

/// A listening socket with its file, which is removed with it.
class UnixListener {
 public:
  /// Binds and listens; who may connect, the file's `mode` says: those who may write to it. A file left by a dead
  /// server is replaced. Errors: kInvalidArgument (path empty or too long, with both lengths), kUnavailable (a server
  /// listens there), kIo (another kind of file, no permission, no such folder).
  static Result<UnixListener> listen(const std::string& path, mode_t mode = kOwnerOnlySocket);

  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();

  /// Gives up ownership of the socket, which the caller closes.
  int release();
  /// Removes the file, if it is still this listener's.
  void remove_file();

 private:
  UnixListener() = default;

  int socket_ = -1;
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;  // identify the file
};

/// Connects a blocking socket to the server at `path`. Errors: kInvalidArgument (path), kNotFound (no such file),
/// kUnavailable (no server listens), kIo.
Result<int> connect_unix(const std::string& path);

}  // namespace cairn::net
