/// The frames socket's protocol: several requests at a time on one connection, each answered with events that bear its
/// id.
#pragma once

#include "api/service.h"
#include "net/frames/frame_server.h"

namespace cairn::api::frames {

inline constexpr size_t kRunningMax = 64;  ///< requests of one connection; more are refused
/// Messages of a connection that wait to be read, one after the other, by a worker; with more, they are refused.
inline constexpr size_t kWaitingMax = 4'096;

/// `service` outlives the server.
net::FrameHandler make_handler(Service& service);

}  // namespace cairn::api::frames
