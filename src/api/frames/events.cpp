#include "api/frames/events.h"

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/usage.h"
#include "api/stats.h"

namespace cairn::api::frames {
namespace {

using nlohmann::ordered_json;

/// Bytes of an error's message and place, which may quote what the client sent.
constexpr size_t kErrorBytesMax = 4'096;

ordered_json begin(std::string_view id, std::string_view event) {
  ordered_json value = ordered_json::object();
  if (!id.empty()) value["id"] = id;
  value["event"] = event;
  return value;
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

std::string token_event(std::string_view begin, TokenId token, std::string_view text, std::string_view reasoning) {
  if (reasoning.empty()) return fmt::format(R"({},"text":{},"token_id":{}}})", begin, dump(text), index(token));
  return fmt::format(R"({},"text":{},"reasoning":{},"token_id":{}}})", begin, dump(text), dump(reasoning),
                     index(token));
}

std::string call_event(std::string_view id, int32_t index, std::string_view call_id, std::string_view name) {
  ordered_json value = begin(id, "tool_call");
  value["index"] = index;
  value["call_id"] = call_id;
  value["name"] = name;
  return dump(value);
}

std::string arguments_event(std::string_view id, int32_t index, std::string_view arguments) {
  ordered_json value = begin(id, "tool_call");
  value["index"] = index;
  value["arguments"] = arguments;
  return dump(value);
}

std::string eos_event(std::string_view id, const Eos& eos) {
  ordered_json value = begin(id, "eos");
  value["reason"] = eos.reason;
  value["text"] = eos.text;
  if (!eos.reasoning.empty()) value["reasoning"] = eos.reasoning;
  for (const chat::ToolCall& call : eos.calls)
    value["tool_calls"].push_back({{"call_id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  if (!eos.stop.empty()) value["stop"] = eos.stop;
  value["usage"] = {{"prompt_tokens", eos.usage.prompt_tokens},
                    {"completion_tokens", eos.usage.completion_tokens},
                    {"cached_tokens", eos.usage.cached_tokens}};
  if (eos.reasoning_tokens) value["usage"]["reasoning_tokens"] = *eos.reasoning_tokens;
  value["timings"] = timings_json(eos.usage, eos.timings);
  return dump(value);
}

std::string error_event(std::string_view id, const Error& error) {
  ordered_json value = begin(id, "error");
  value["code"] = wire_error(error.code).code;
  value["message"] = shortened(error.message);
  if (!error.at.empty()) value["at"] = shortened(error.at);
  if (error.overflow) {
    value["prompt_tokens"] = error.overflow->prompt_tokens;
    value["context_tokens"] = error.overflow->context_tokens;
  }
  return dump(value);
}

std::string metrics_event(std::string_view id, const loader::Registry& registry) {
  ordered_json value = begin(id, "metrics");
  value.update(server_stats(registry, loader::kEveryModel));
  return dump(value);
}

}  // namespace cairn::api::frames
