#include "api/frames/events.h"

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/openai/wire.h"
#include "api/stats.h"

namespace cairn::api::frames {
namespace {

using nlohmann::ordered_json;

/// Of an error's message and place, which may quote what the client sent.
constexpr size_t kErrorBytesMax = 4'096;

ordered_json begin(std::string_view id, std::string_view event) {
  ordered_json value = ordered_json::object();
  if (!id.empty()) value["id"] = id;
  value["event"] = event;
  return value;
}

std::string_view reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kRepetition:
      return "repetition";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      break;
  }
  return "error";
}

std::string shortened(const std::string& text) {
  return text.size() <= kErrorBytesMax ? text : text.substr(0, kErrorBytesMax) + " ...";
}

}  // namespace

std::string token_event_begin(std::string_view id) {
  std::string text = dump(begin(id, "token"));
  text.pop_back();
  return text;
}

std::string token_event(std::string_view begin, std::string_view text, TokenId token) {
  return fmt::format(R"({},"text":{},"token_id":{}}})", begin, dump(text), index(token));
}

std::string eos_event(std::string_view id, const Finish& finish, std::string_view text) {
  ordered_json value = begin(id, "eos");
  value["reason"] = reason_name(finish.reason);
  value["text"] = text;
  if (!finish.stop.empty()) value["stop"] = finish.stop;
  value["usage"] = {{"prompt_tokens", finish.usage.prompt_tokens},
                    {"completion_tokens", finish.usage.completion_tokens},
                    {"cached_tokens", finish.usage.cached_tokens}};
  value["timings"] = openai::timings_json(finish.usage, finish.timings);
  return dump(value);
}

std::string error_event(std::string_view id, const Error& error) {
  ordered_json value = begin(id, "error");
  value["code"] = wire_error(error.code).code;
  value["message"] = shortened(error.message);
  if (!error.at.empty()) value["at"] = shortened(error.at);
  return dump(value);
}

std::string metrics_event(std::string_view id, const Registry& registry) {
  ordered_json value = begin(id, "metrics");
  value.update(server_stats(registry));
  return dump(value);
}

}  // namespace cairn::api::frames
