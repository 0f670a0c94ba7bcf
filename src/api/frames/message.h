/// What clients of the frames socket say: one JSON object a message. docs/api/frames.md lists every field.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <variant>

#include "api/chat/request.h"
#include "api/params/answer_form.h"
#include "base/error.h"
#include "engine/engine.h"

namespace cairn::api {
class RequestContext;
}  // namespace cairn::api

namespace cairn::api::frames {

inline constexpr size_t kIdBytesMax = 256;
inline constexpr size_t kTenantBytesMax = 128;

/// {"id", "prompt", ...}
struct Generate {
  std::string id;
  std::string model;  ///< empty: the first one
  bool stream = true;
  std::string prompt;               ///< text to continue
  chat::AnswerForm form;            ///< what the answer is held to
  engine::GenerateRequest request;  ///< everything but the prompt
};
/// {"id", "messages", ...}
struct Chat {
  std::string id;
  ChatRequest request;
};
/// {"id", "event": "cancel"}
struct Cancel {
  std::string id;
};
/// {"event": "metrics"}
struct Metrics {
  std::string id;  ///< may be empty
};
using Message = std::variant<Generate, Chat, Cancel, Metrics>;

struct Refusal {
  std::string id;  ///< of the message, if it had one
  Error error;     ///< `at` is the field's path, or empty for what is no JSON object
};

std::expected<Message, Refusal> parse_message(RequestContext& context, std::string_view text);

}  // namespace cairn::api::frames
