#include "api/ollama/serializer.h"

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"
#include "base/text/json.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

std::string_view done_reason(chat::ChatFinishReason end) {
  const bool ended = end != chat::ChatFinishReason::kLength && end != chat::ChatFinishReason::kCutCall;
  return ended && end != chat::ChatFinishReason::kRepetition ? "stop" : "length";
}

// Null if they are no object.
ordered_json arguments_of(const std::string& text) {
  if (text.empty()) return ordered_json::object();
  auto value = read_json(text);
  return value && value->is_object() ? *std::move(value) : ordered_json(nullptr);
}

std::string line(const ordered_json& value) { return dump(value) + "\n"; }

/// The value's text, with what has gathered of log-probabilities.
std::string with_logprobs(const ordered_json& value, JsonList& logprobs) {
  return logprobs.empty() ? dump(value) : with_member(dump(value), "logprobs", logprobs.take());
}

}  // namespace

OllamaSerializer::OllamaSerializer(ResponseOptions options, const tokenizer::Tokenizer& tokenizer)
    : options_(std::move(options)), tokenizer_(tokenizer) {}

ordered_json OllamaSerializer::envelope(Delta&& delta, bool done) const {
  ordered_json value = {{"model", options_.model}, {"created_at", rfc3339_now()}};
  if (options_.generates) {
    value["response"] = std::move(delta.content);
    if (!delta.thinking.empty()) value["thinking"] = std::move(delta.thinking);
  } else {
    ordered_json message = {{"role", "assistant"}, {"content", std::move(delta.content)}};
    if (!delta.thinking.empty()) message["thinking"] = std::move(delta.thinking);
    if (!delta.calls.empty()) message["tool_calls"] = std::move(delta.calls);
    value["message"] = std::move(message);
  }
  value["done"] = done;
  return value;
}

std::string OllamaSerializer::line_so_far() {
  return with_logprobs(envelope(std::exchange(delta_, {}), false), logprobs_) + "\n";
}

void OllamaSerializer::end_call(bool whole) {
  const chat::ToolCall call = std::exchange(call_, {});
  ordered_json arguments = whole ? arguments_of(call.arguments) : ordered_json(nullptr);
  if (arguments.is_null()) {
    delta_.content += fmt::format("{} {}", call.name, call.arguments);
    return;
  }
  delta_.calls.push_back(
      {{"id", call.id},
       {"function", {{"index", calls_sent_++}, {"name", call.name}, {"arguments", std::move(arguments)}}}});
}

std::string OllamaSerializer::parts(int, std::span<const chat::Part> parts, const engine::TokenEvent* event) {
  if (options_.logprobs && event != nullptr) {
    ordered_json entry = logprob_json(tokenizer_, event->token, event->logprob);
    for (const auto& top : event->top)
      entry["top_logprobs"].push_back(logprob_json(tokenizer_, top.token, top.logprob));
    logprobs_.add(entry);
  }
  for (const chat::Part& part : parts) {
    switch (part.kind) {
      case chat::PartKind::kContent:
        delta_.content += part.text;
        break;
      case chat::PartKind::kReasoning:
        delta_.thinking += part.text;
        break;
      case chat::PartKind::kCallBegin:
        call_ = {part.id, part.text, {}};
        break;
      case chat::PartKind::kArguments:
        call_.arguments += part.text;
        break;
      case chat::PartKind::kCallEnd:
        end_call(part.state == chat::CallState::kWhole);
        break;
    }
  }
  return options_.stream && !delta_.empty() ? line_so_far() : std::string();
}

std::string OllamaSerializer::finish(int, chat::ChatFinish&& finish) {
  std::string bytes;
  if (options_.stream && !(delta_.empty() && logprobs_.empty())) bytes = line_so_far();
  ordered_json value = envelope(std::exchange(delta_, {}), true);
  value["done_reason"] = done_reason(finish.reason);
  const engine::Timings& timings = finish.timings;
  value["total_duration"] = (timings.queue + timings.prefill + timings.decode).count();
  value["load_duration"] = 0;
  value["prompt_eval_count"] = finish.usage.prompt_tokens;
  value["prompt_eval_duration"] = timings.prefill.count();
  value["eval_count"] = finish.usage.completion_tokens;
  value["eval_duration"] = timings.decode.count();
  last_ = with_logprobs(value, logprobs_);
  if (options_.stream) last_ += '\n';
  return bytes;
}

std::string OllamaSerializer::done() { return std::move(last_); }

std::string OllamaSerializer::failure(const Error& error) { return line(error_body(error, ErrorFormat::kOllama)); }

std::string OllamaSerializer::loaded() const {
  ordered_json value = envelope({}, true);
  value["done_reason"] = "load";
  return options_.stream ? line(value) : dump(value);
}

std::string RawPromptSerializer::token(int choice, engine::TokenEvent&& event) {
  std::vector<chat::Part> parts;
  if (!event.text.empty()) parts.push_back({chat::PartKind::kContent, event.text, -1, {}, chat::CallState::kWhole});
  return serializer_->parts(choice, parts, &event);
}

std::string RawPromptSerializer::finish(int choice, engine::Finish&& finish) {
  std::string bytes;
  if (!finish.text.empty()) {
    const chat::Part rest{chat::PartKind::kContent, std::move(finish.text), -1, {}, chat::CallState::kWhole};
    bytes = serializer_->parts(choice, {&rest, 1}, nullptr);
  }
  chat::ChatFinish end;
  if (finish.reason == engine::FinishReason::kStop) {
    end.reason = finish.stop.empty() ? chat::ChatFinishReason::kStop : chat::ChatFinishReason::kStopString;
  } else {
    end.reason = finish.reason == engine::FinishReason::kRepetition ? chat::ChatFinishReason::kRepetition
                                                                    : chat::ChatFinishReason::kLength;
  }
  end.stop = std::move(finish.stop);
  end.usage = finish.usage;
  end.timings = finish.timings;
  return bytes + serializer_->finish(choice, std::move(end));
}

}  // namespace cairn::api::ollama
