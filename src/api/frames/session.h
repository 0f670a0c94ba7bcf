/// The frames socket's protocol: several requests at a time on one connection, each answered with events that bear its
/// id.
#pragma once

#include "net/frame_server.h"
#include "registry/registry.h"

namespace cairn::api::frames {

inline constexpr size_t kRunningMax = 64;  ///< requests of one connection; more are refused
/// Bytes that may wait for a client to read them. With more, tokens stay in the engine's event channels, which pause
/// the requests when they are full; net/ drops a client that reads nothing for a while.
inline constexpr size_t kUnsentBytesMax = 256 << 10;

/// `registry` outlives the server.
net::FrameHandler make_handler(const Registry& registry);

}  // namespace cairn::api::frames
