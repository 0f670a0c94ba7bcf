#include "api/frames/message.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/answer_form.h"
#include "api/params/generation_params.h"
#include "api/params/llama_options.h"
#include "api/params/request_fields.h"
#include "base/hash.h"

namespace cairn::api::frames {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();

std::string read_id(RequestFields& fields, bool required) {
  if (fields.get("id") == nullptr) {
    if (required) fields.reject("id", "is missing: name the request, its events will bear the name");
    return {};
  }
  std::string id = fields.string("id", "");
  if (id.empty() || id.size() > kIdBytesMax) {
    fields.reject("id", fmt::format("must be a string of 1 to {} bytes", kIdBytesMax));
    return {};
  }
  return id;
}

/// Whose request it is: a name that the peer gives, which parts its prefix cache and its share from those of others.
void read_tenant(RequestFields& fields, engine::GenerateRequest& request) {
  const std::string tenant = fields.string("tenant", "");
  if (tenant.size() > kTenantBytesMax)
    return fields.reject("tenant", fmt::format("must be a string of at most {} bytes", kTenantBytesMax));
  if (tenant.empty()) return;
  request.tenant = "frames:" + tenant;  // nobody's API key is called so
  request.salt = hash64(request.tenant, request.salt) | 1;
}

void read_generate(RequestFields& fields, std::string_view id, engine::GenerateRequest& request) {
  read_generation_params(fields, request);
  request.max_tokens = read_token_limit(fields).value_or(-1);
  fields.only("n", 1, "ask again for another answer");
  request.id = id;
  read_tenant(fields, request);
}

Generate read_text(RequestFields& fields, const std::string& id) {
  Generate generate;
  generate.id = id;
  generate.model = fields.string("model", "");
  generate.stream = fields.boolean("stream", true);
  generate.prompt = fields.string("prompt", "");
  read_generate(fields, id, generate.request);
  read_answer_form(fields, generate.form);
  return generate;
}

Chat read_chat(RequestFields& fields, const std::string& id) {
  Chat chat{id, {}};
  ChatRequest& request = chat.request;
  request.model = fields.string("model", "");
  request.stream = fields.boolean("stream", true);
  request.input = read_chat_input(fields, request.prefill);
  read_tool_choice(fields, request);
  read_answer_form(fields, request.form);
  read_thinking_objects(fields, request.reasoning);
  read_reasoning(fields, request.reasoning);
  request.stored = fields.boolean("store", true);  // what is sampled for calls: --store
  read_generate(fields, id, request.generate);
  request.generate.keep_on_disk = request.generate.keep_on_disk && request.stored;
  return chat;
}

Message read_request(RequestFields& fields, const std::string& id) {
  const bool chat = fields.get("messages") != nullptr;
  if (chat == (fields.get("prompt") != nullptr)) {
    fields.reject("prompt", chat ? "and messages are both there: give one of them"
                                 : "is missing: give a prompt to continue, or messages to answer");
  }
  if (chat) return read_chat(fields, id);
  return read_text(fields, id);
}

}  // namespace

std::expected<Message, Refusal> parse_message(RequestContext& context, std::string_view text) {
  const auto body = parse_object(text);
  if (!body) return std::unexpected(Refusal{{}, body.error()});
  RequestFields fields(context, *body);
  Message message;
  const std::string event = fields.string("event", "");
  const std::string id = read_id(fields, event != "metrics");
  if (event == "cancel") {
    message = Cancel{id};
  } else if (event == "metrics") {
    message = Metrics{id};
  } else if (event.empty()) {
    message = read_request(fields, id);
  } else {
    constexpr size_t kShownMax = 40;
    fields.reject("event", fmt::format("\"{}\" is neither cancel nor metrics; a request for text has no event",
                                       event.substr(0, kShownMax)));
  }
  if (const auto done = fields.finish(); !done) return std::unexpected(Refusal{id, done.error()});
  return message;
}

}  // namespace cairn::api::frames
