/// What the server says to clients of the frames socket: one JSON object an event, as text. docs/api/frames.md lists
/// every field.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "chat/chat_turn.h"
#include "engine/engine.h"
#include "loader/registry.h"

namespace cairn::api::frames {

/// {"id", "event": "token"} without its end: what all token events of a request begin with.
std::string token_event_begin(std::string_view id);
/// {"id", "event": "token", "text", "reasoning", "token_id"}; `reasoning` only if there is some.
std::string token_event(std::string_view begin, TokenId token, std::string_view text, std::string_view reasoning = {});
/// {"id", "event": "tool_call", "index", "call_id", "name"}: a call begins.
std::string call_event(std::string_view id, int32_t index, std::string_view call_id, std::string_view name);
/// {"id", "event": "tool_call", "index", "arguments"}: the next piece of its arguments.
std::string arguments_event(std::string_view id, int32_t index, std::string_view arguments);

/// How an answer ends, and all of it that no other event has said.
struct Eos {
  std::string_view reason{};
  std::string_view text{};
  std::string_view reasoning{};             ///< empty: there is none
  std::span<const chat::ToolCall> calls{};  ///< empty: there are none
  std::string_view stop{};                  ///< the stop string that came; empty: none
  engine::Usage usage{};
  std::optional<int32_t> reasoning_tokens{};  ///< of a conversation
  engine::Timings timings{};
};
/// {"id", "event": "eos", "reason", "text", "reasoning", "tool_calls", "stop", "usage", "timings"}
std::string eos_event(std::string_view id, const Eos& eos);
/// {"id", "event": "error", "code", "message", "at"}; without an empty id and an empty `at`. Far shorter than a frame.
std::string error_event(std::string_view id, const Error& error);
/// {"id", "event": "metrics", ...} with the numbers of GET /stats.
std::string metrics_event(std::string_view id, const loader::Registry& registry);

}  // namespace cairn::api::frames
