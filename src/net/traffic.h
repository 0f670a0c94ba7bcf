/// What a server's sockets have had.
#pragma once

#include <atomic>
#include <cstdint>

namespace cairn::net {

/// What has come and gone through a server's sockets since its start. Any thread.
struct Traffic {
  std::atomic<int64_t> accepted = 0;  ///< connections
  std::atomic<int64_t> closed = 0;
  std::atomic<int64_t> refused = 0;  ///< what was answered by net/ itself: bad HTTP, foreign pages, over limits
  std::atomic<int64_t> received_bytes = 0;
  std::atomic<int64_t> sent_bytes = 0;
};

}  // namespace cairn::net
