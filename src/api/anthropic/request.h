/// Anthropic's request bodies for messages -> what the engine and the templates take.
///
/// Source: Anthropic API reference, "Create a Message" and "Count tokens"; the sampling fields beyond it are those of
/// the OpenAI endpoints. docs/api/anthropic.md lists every field.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/chat/request.h"
#include "base/error.h"

namespace cairn::api {
class RequestContext;
}  // namespace cairn::api

namespace cairn::api::anthropic {

struct MessagesRequest {
  ChatRequest chat;
  bool shows_thinking = true;  ///< false: thinking blocks come without their text
  bool marks_cache = false;    ///< whether cache_control stands anywhere
};

enum class Purpose { kAnswer, kCount };

/// Errors have the path of the field that is wrong. To count, max_tokens may be missing.
Result<MessagesRequest> parse_messages(RequestContext& context, const nlohmann::ordered_json& body, Purpose purpose);

}  // namespace cairn::api::anthropic
