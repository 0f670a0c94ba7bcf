/// What the server says to clients of the frames socket: one JSON object an event, as text. docs/api/frames.md lists
/// every field.
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "engine/engine.h"
#include "loader/registry.h"

namespace cairn::api::frames {

/// {"id", "event": "token"} without its end: what all token events of a request begin with.
std::string token_event_begin(std::string_view id);
/// {"id", "event": "token", "text", "token_id"}
std::string token_event(std::string_view begin, std::string_view text, TokenId token);
/// {"id", "event": "eos", "reason", "text", "stop", "usage", "timings"}: `text` is all that no token event has said.
std::string eos_event(std::string_view id, const Finish& finish, std::string_view text);
/// {"id", "event": "error", "code", "message", "at"}; without an empty id and an empty `at`. Far shorter than a frame.
std::string error_event(std::string_view id, const Error& error);
/// {"id", "event": "metrics", ...} with the numbers of GET /stats.
std::string metrics_event(std::string_view id, const Registry& registry);

}  // namespace cairn::api::frames
