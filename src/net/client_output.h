/// What the way to a client offers whatever its protocol: HttpResponse and FrameSender have it in common.
#pragma once

#include <cstddef>
#include <functional>

namespace cairn::net {

class ClientOutput {
 public:
  virtual ~ClientOutput() = default;
  /// Bytes that the client's socket has not taken. What writes faster than the client reads should wait for on_drained;
  /// over the limits' unsent_bytes_max the client is dropped.
  virtual size_t unsent_bytes() const = 0;
  /// Calls `callback` once, on the server's thread, when `bytes` or fewer are unsent, soon if that is so now; never
  /// once the exchange or the connection is over. Replaces a callback that still waits.
  virtual void on_drained(size_t bytes, std::function<void()> callback) = 0;
  /// Runs `work` on the server's thread, soon; not at all once the server has stopped. Thread-safe.
  virtual void post(std::function<void()> work) = 0;
};

}  // namespace cairn::net
