#include "api/ollama/answer.h"

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

std::string_view done_reason(ChatEnd end) {
  return end == ChatEnd::kLength || end == ChatEnd::kRepetition ? "length" : "stop";
}

// Null if they are no object.
ordered_json arguments_of(const std::string& text) {
  if (text.empty()) return ordered_json::object();
  ordered_json value = ordered_json::parse(text, nullptr, false);
  return value.is_object() ? value : ordered_json(nullptr);
}

std::string line(const ordered_json& value) { return dump(value) + "\n"; }

/// The value's text, with what has gathered of log-probabilities.
std::string with_logprobs(const ordered_json& value, JsonList& logprobs) {
  return logprobs.empty() ? dump(value) : with_member(dump(value), "logprobs", logprobs.take());
}

}  // namespace

OllamaAnswer::OllamaAnswer(AnswerForm form, const Tokenizer& tokenizer)
    : form_(std::move(form)), tokenizer_(tokenizer) {}

ordered_json OllamaAnswer::envelope(Said&& said, bool done) const {
  ordered_json value = {{"model", form_.model}, {"created_at", rfc3339_now()}};
  if (form_.generates) {
    value["response"] = std::move(said.content);
    if (!said.thinking.empty()) value["thinking"] = std::move(said.thinking);
  } else {
    ordered_json message = {{"role", "assistant"}, {"content", std::move(said.content)}};
    if (!said.thinking.empty()) message["thinking"] = std::move(said.thinking);
    if (!said.calls.empty()) message["tool_calls"] = std::move(said.calls);
    value["message"] = std::move(message);
  }
  value["done"] = done;
  return value;
}

std::string OllamaAnswer::line_so_far() {
  return with_logprobs(envelope(std::exchange(said_, {}), false), logprobs_) + "\n";
}

void OllamaAnswer::end_call(const Call& ended, bool whole) {
  const ToolCall& call = ended.call;
  ordered_json arguments = whole ? arguments_of(call.arguments) : ordered_json(nullptr);
  if (arguments.is_null()) {
    said_.content += fmt::format("{} {}", call.name, call.arguments);
    return;
  }
  said_.calls.push_back(
      {{"id", call.id},
       {"function", {{"index", calls_said_++}, {"name", call.name}, {"arguments", std::move(arguments)}}}});
}

std::string OllamaAnswer::parts(int, std::span<const Part> parts, const TokenEvent* event) {
  if (form_.logprobs && event != nullptr) {
    ordered_json entry = logprob_json(tokenizer_, event->token, event->logprob);
    for (const auto& top : event->top)
      entry["top_logprobs"].push_back(logprob_json(tokenizer_, top.token, top.logprob));
    logprobs_.add(entry);
  }
  for (const Part& part : parts) {
    switch (part.kind) {
      case PartKind::kContent:
        said_.content += part.text;
        break;
      case PartKind::kReasoning:
        said_.thinking += part.text;
        break;
      case PartKind::kCallBegin:
        waiting_.push_back({{part.id, part.text, {}}, CallState::kRepaired});
        break;
      case PartKind::kArguments:
        waiting_.back().call.arguments += part.text;
        break;
      case PartKind::kCallEnd:
        // What the end of the answer has cut is whole only if the model ended it, which finish() tells.
        if (part.state == CallState::kRepaired) break;
        end_call(waiting_.back(), part.state == CallState::kWhole);
        waiting_.pop_back();
        break;
    }
  }
  return form_.stream && !said_.empty() ? line_so_far() : std::string();
}

std::string OllamaAnswer::finish(int, ChatFinish&& finish) {
  for (const Call& call : waiting_) end_call(call, finish.end == ChatEnd::kToolCalls);
  waiting_.clear();
  std::string bytes;
  if (form_.stream && !(said_.empty() && logprobs_.empty())) bytes = line_so_far();
  ordered_json value = envelope(std::exchange(said_, {}), true);
  value["done_reason"] = done_reason(finish.end);
  const Timings& timings = finish.timings;
  value["total_duration"] = (timings.queue + timings.prefill + timings.decode).count();
  value["load_duration"] = 0;
  value["prompt_eval_count"] = finish.usage.prompt_tokens;
  value["prompt_eval_duration"] = timings.prefill.count();
  value["eval_count"] = finish.usage.completion_tokens;
  value["eval_duration"] = timings.decode.count();
  last_ = with_logprobs(value, logprobs_);
  if (form_.stream) last_ += '\n';
  return bytes;
}

std::string OllamaAnswer::done() { return std::move(last_); }

std::string OllamaAnswer::failure(const Error& error) { return line(error_body(error, ErrorShape::kOllama)); }

std::string OllamaAnswer::loaded() const {
  ordered_json value = envelope({}, true);
  value["done_reason"] = "load";
  return form_.stream ? line(value) : dump(value);
}

std::string RawAnswer::token(int choice, TokenEvent&& event) {
  std::vector<Part> parts;
  if (!event.text.empty()) parts.push_back({PartKind::kContent, event.text, -1, {}, CallState::kWhole});
  return writer_->parts(choice, parts, &event);
}

std::string RawAnswer::finish(int choice, Finish&& finish) {
  std::string bytes;
  if (!finish.text.empty()) {
    const Part rest{PartKind::kContent, std::move(finish.text), -1, {}, CallState::kWhole};
    bytes = writer_->parts(choice, {&rest, 1}, nullptr);
  }
  ChatFinish end;
  if (finish.reason == FinishReason::kStop) {
    end.end = finish.stop.empty() ? ChatEnd::kStop : ChatEnd::kStopString;
  } else {
    end.end = finish.reason == FinishReason::kRepetition ? ChatEnd::kRepetition : ChatEnd::kLength;
  }
  end.stop = std::move(finish.stop);
  end.usage = finish.usage;
  end.timings = finish.timings;
  return bytes + writer_->finish(choice, std::move(end));
}

}  // namespace cairn::api::ollama
