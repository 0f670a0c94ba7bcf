#include "api/frames/message.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/fields.h"
#include "api/params/generation_params.h"

namespace cairn::api::frames {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();

std::string read_id(Fields& fields, bool required) {
  if (fields.get("id") == nullptr) {
    if (required) fields.fail_field("id", "is missing: name the request, its events will bear the name");
    return {};
  }
  std::string id = fields.string("id", "");
  if (id.empty() || id.size() > kIdBytesMax) {
    fields.fail_field("id", fmt::format("must be a string of 1 to {} bytes", kIdBytesMax));
    return {};
  }
  return id;
}

void read_prompt(Fields& fields, Generate& generate) {
  const bool chat = fields.get("messages") != nullptr;
  if (chat == (fields.get("prompt") != nullptr)) {
    return fields.fail_field("prompt", chat ? "and messages are both there: give one of them"
                                            : "is missing: give a prompt to continue, or messages to answer");
  }
  if (!chat) {
    generate.prompt = fields.string("prompt", "");
    return;
  }
  fields.refuse("tools", "calls are told apart from text over HTTP only");
  generate.prompt = read_chat_input(fields);
  generate.request.text_at_start = true;
}

Generate read_generate(Fields& fields) {
  Generate generate;
  generate.model = fields.string("model", "");
  generate.stream = fields.boolean("stream", true);
  read_prompt(fields, generate);
  read_generation_params(fields, generate.request);
  generate.request.max_tokens = static_cast<int32_t>(fields.integer("max_tokens", -1, 1, kTokensMax));
  return generate;
}

}  // namespace

std::expected<Message, Refusal> parse_message(std::string_view text) {
  const auto body = parse_object(text);
  if (!body) return std::unexpected(Refusal{{}, body.error()});
  Fields fields(*body);
  Message message;
  const std::string event = fields.string("event", "");
  const std::string id = read_id(fields, event != "metrics");
  if (event == "cancel") {
    message = Cancel{id};
  } else if (event == "metrics") {
    message = Metrics{id};
  } else if (event.empty()) {
    Generate generate = read_generate(fields);
    generate.id = id;
    generate.request.id = id;
    message = std::move(generate);
  } else {
    constexpr size_t kShownMax = 40;
    fields.fail_field("event", fmt::format("\"{}\" is neither cancel nor metrics; a request for text has no event",
                                           event.substr(0, kShownMax)));
  }
  if (const auto done = fields.finish(); !done) return std::unexpected(Refusal{id, done.error()});
  return message;
}

}  // namespace cairn::api::frames
