#include "api/responses/serializer.h"

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"
#include "base/system/random_id.h"
#include "base/text/printable.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

std::string_view delta_event(bool call, bool message) {
  if (call) return "response.function_call_arguments.delta";
  return message ? "response.output_text.delta" : "response.reasoning_text.delta";
}

// Null: it came to its end.
ordered_json incomplete_details(ChatFinishReason end) {
  if (end == ChatFinishReason::kLength) return {{"reason", "max_output_tokens"}};
  if (end == ChatFinishReason::kRepetition) return {{"reason", "repetition"}};  // OpenAI has no word for it
  return nullptr;
}

ordered_json usage_json(const ChatFinish& finish) {
  const Usage& usage = finish.usage;
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", finish.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

ResponsesSerializer::ResponsesSerializer(ResponseOptions options, RunningResponses& running)
    : options_(std::move(options)), running_(running) {
  response_ = {{"id", options_.id},
               {"object", "response"},
               {"created_at", unix_seconds_now()},
               {"status", "in_progress"},
               {"completed_at", nullptr},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", options_.model},
               {"output", ordered_json::array()}};
  response_.update(options_.echo);
  response_["usage"] = nullptr;
}

ResponsesSerializer::~ResponsesSerializer() {
  if (listed_) running_.remove(options_.id);
}

void ResponsesSerializer::on_start(std::function<void()> cancel) {
  cancel_ = std::move(cancel);
  running_.add(options_.id, *this);
  listed_ = true;
}

std::string ResponsesSerializer::event(std::string_view type, ordered_json fields) {
  if (!options_.stream) return {};
  ordered_json value = {{"type", type}, {"sequence_number", sequence_++}};
  for (auto& [name, field] : fields.items()) value[name] = std::move(field);
  return fmt::format("event: {}\ndata: {}\n\n", type, dump(value));
}

std::string ResponsesSerializer::item_event(std::string_view type, ordered_json fields) {
  if (!options_.stream) return {};
  ordered_json about = {{"item_id", item_.json["id"]}, {"output_index", response_["output"].size()}};
  if (item_.kind != Kind::kCall) about["content_index"] = 0;
  for (auto& [name, field] : fields.items()) about[name] = std::move(field);
  return event(type, std::move(about));
}

std::string ResponsesSerializer::lifecycle(std::string_view type) {
  return options_.stream ? event(type, {{"response", response_}}) : std::string();
}

// As llama.cpp's server has it, with return_progress.
std::string ResponsesSerializer::prefill(int, const PrefillProgress& progress) {
  std::string bytes;
  if (!options_.stream) return bytes;
  for (const PrefillProgress& each : prefill_.next(progress))
    bytes += event("response.in_progress", {{"response", response_}, {"prompt_progress", prefill_json(each)}});
  return bytes;
}

std::string ResponsesSerializer::begin() {
  std::string bytes = lifecycle("response.created");
  return bytes + lifecycle("response.in_progress");
}

ordered_json ResponsesSerializer::content_part() const {
  if (item_.kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", item_.text}};
  return {{"type", "output_text"},
          {"annotations", ordered_json::array()},
          {"logprobs", item_.logprobs},
          {"text", item_.text}};
}

std::string ResponsesSerializer::open(Kind kind, ordered_json item) {
  std::string bytes = close("completed");
  item_ = {.kind = kind, .json = std::move(item), .text = {}};
  return bytes +
         event("response.output_item.added", {{"output_index", response_["output"].size()}, {"item", item_.json}});
}

std::string ResponsesSerializer::open_text(Kind kind) {
  if (item_.kind == kind) return {};
  ordered_json item;
  if (kind == Kind::kMessage) {
    item = {{"id", random_id("msg_")},
            {"type", "message"},
            {"status", "in_progress"},
            {"role", "assistant"},
            {"content", ordered_json::array()}};
  } else {
    item = {{"id", random_id("rs_")},
            {"type", "reasoning"},
            {"status", "in_progress"},
            {"summary", ordered_json::array()},
            {"content", ordered_json::array()}};
    if (options_.encrypted_reasoning) item["encrypted_content"] = nullptr;
  }
  std::string bytes = open(kind, std::move(item));
  return bytes + item_event("response.content_part.added", {{"part", content_part()}});
}

std::string ResponsesSerializer::say(const std::string& text) {
  if (text.empty() || item_.kind == Kind::kNone) return {};
  item_.text += text;
  ordered_json fields = {{"delta", text}};
  if (item_.kind == Kind::kMessage) {
    fields["logprobs"] = tokens_.take(text);
    for (const auto& entry : fields["logprobs"]) item_.logprobs.push_back(entry);
  }
  return item_event(delta_event(item_.kind == Kind::kCall, item_.kind == Kind::kMessage), std::move(fields));
}

std::string ResponsesSerializer::close(std::string_view status) {
  if (item_.kind == Kind::kNone) return {};
  std::string bytes;
  ordered_json& item = item_.json;
  item["status"] = status;
  if (item_.kind == Kind::kCall) {
    item["arguments"] = item_.text;
    bytes = item_event("response.function_call_arguments.done", {{"name", item["name"]}, {"arguments", item_.text}});
  } else {
    const bool message = item_.kind == Kind::kMessage;
    ordered_json part = content_part();
    ordered_json fields = {{"text", item_.text}};
    if (message) fields["logprobs"] = part["logprobs"];
    bytes = item_event(message ? "response.output_text.done" : "response.reasoning_text.done", std::move(fields));
    bytes += item_event("response.content_part.done", {{"part", part}});
    item["content"].push_back(std::move(part));
  }
  bytes += event("response.output_item.done", {{"output_index", response_["output"].size()}, {"item", item}});
  response_["output"].push_back(std::move(item));
  item_ = {};
  return bytes;
}

std::string ResponsesSerializer::part(const Part& part) {
  std::string bytes;
  if (part.kind >= PartKind::kCallBegin) tokens_.pass_all_but_last();
  switch (part.kind) {
    case PartKind::kContent:
    case PartKind::kReasoning:
      if (part.text.empty()) break;
      if (part.kind == PartKind::kReasoning) tokens_.pass(part.text);
      bytes = open_text(part.kind == PartKind::kContent ? Kind::kMessage : Kind::kReasoning);
      bytes += say(part.text);
      break;
    case PartKind::kCallBegin:
      bytes = open(Kind::kCall, {{"id", random_id("fc_")},
                                 {"type", "function_call"},
                                 {"status", "in_progress"},
                                 {"arguments", ""},
                                 {"call_id", part.id},
                                 {"name", part.text}});
      break;
    case PartKind::kArguments:
      bytes = say(part.text);
      break;
    case PartKind::kCallEnd:
      bytes = close(part.state == CallState::kWhole ? "completed" : "incomplete");
      break;
  }
  return bytes;
}

std::string ResponsesSerializer::parts(int, std::span<const Part> parts, const TokenEvent* event) {
  std::string bytes;
  if (options_.tokenizer != nullptr && event != nullptr)
    tokens_.add(event->text, sampled_logprob_json(*options_.tokenizer, *event));
  for (const Part& one : parts) {
    if (cancelled_) break;
    bytes += part(one);
  }
  return bytes;
}

std::string ResponsesSerializer::finish(int, ChatFinish&& finish) {
  if (cancelled_) return {};
  const ordered_json details = incomplete_details(finish.reason);
  const bool whole = details.is_null();
  std::string bytes;
  // An answer of no words is a turn all the same, which the next request wants to find.
  if (whole && finish.turn.content.empty() && finish.turn.calls.empty()) bytes = open_text(Kind::kMessage);
  bytes += close(whole ? "completed" : "incomplete");
  response_["incomplete_details"] = details;
  response_["usage"] = usage_json(finish);
  response_["timings"] = timings_json(finish.usage, finish.timings);
  end(whole ? "completed" : "incomplete");
  return bytes;
}

void ResponsesSerializer::end(std::string_view status) {
  response_["status"] = status;
  if (status == "completed") response_["completed_at"] = unix_seconds_now();
}

std::function<void()> ResponsesSerializer::settle(const Error* error) {
  if (error != nullptr && !cancelled_) {
    final_items_ = close("incomplete");
    const bool busy = error->code == Code::kQueueFull;
    response_["error"] = {{"code", busy ? "rate_limit_exceeded" : "server_error"},
                          {"message", cut_text(error->message, kErrorMessageBytesMax)}};
    end("failed");
  }
  if (!options_.store) return {};
  return [keep = std::move(options_.keep), response = response_, kept = kept_] { *kept = keep(response); };
}

// Until now it was found as it is: nobody who asks for it in between sees it nowhere.
void ResponsesSerializer::settled() {
  if (options_.store && !*kept_) response_["store"] = false;
  if (std::exchange(listed_, false)) running_.remove(options_.id);
}

std::string ResponsesSerializer::done() {
  settled();
  if (!options_.stream) return dump(response_);
  return final_items_ + lifecycle(response_["status"] == "completed" ? "response.completed" : "response.incomplete");
}

std::string ResponsesSerializer::failure(const Error& /*error*/) {
  if (cancelled_) return done();
  settled();
  return final_items_ + lifecycle("response.failed");
}

ordered_json ResponsesSerializer::cancel() {
  if (response_["status"] != "in_progress") return response_;
  cancelled_ = true;
  final_items_ = close("incomplete");
  end("cancelled");
  if (cancel_) cancel_();
  return response_;
}

}  // namespace cairn::api::responses
