#include "api/responses/serializer.h"

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"
#include "base/system/random_id.h"
#include "base/text/json.h"
#include "base/text/printable.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

// Null: it came to its end.
ordered_json incomplete_details(chat::ChatFinishReason end) {
  if (end == chat::ChatFinishReason::kLength || end == chat::ChatFinishReason::kCutCall)
    return {{"reason", "max_output_tokens"}};
  if (end == chat::ChatFinishReason::kRepetition) return {{"reason", "repetition"}};  // OpenAI has no word for it
  return nullptr;
}

}  // namespace

ordered_json usage_json(const chat::ChatFinish& finish) {
  const engine::Usage& usage = finish.usage;
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", cache_json(usage)},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", finish.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

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
  if (item_.kind == Kind::kMessage || item_.kind == Kind::kReasoning)
    about[is_summary() ? "summary_index" : "content_index"] = 0;
  for (auto& [name, field] : fields.items()) about[name] = std::move(field);
  return event(type, std::move(about));
}

std::string ResponsesSerializer::lifecycle(std::string_view type) {
  return options_.stream ? event(type, {{"response", response_}}) : std::string();
}

// llama.cpp's server has such an event, with return_progress.
std::string ResponsesSerializer::prefill(int, const engine::PrefillProgress& progress) {
  std::string bytes;
  so_far_.prompt(progress);
  if (!options_.stream || !options_.return_progress) return bytes;
  for (const engine::PrefillProgress& each : prefill_.next(progress)) {
    so_far_.prompt(each);
    ordered_json fields = {{"response", response_}, {"prompt_progress", prefill_json(each)}};
    if (options_.timings_per_token) fields["timings"] = so_far_.json();
    bytes += event("response.in_progress", std::move(fields));
  }
  return bytes;
}

std::string ResponsesSerializer::begin() {
  std::string bytes = lifecycle("response.created");
  return bytes + lifecycle("response.in_progress");
}

ordered_json ResponsesSerializer::content_part() const {
  if (item_.kind == Kind::kReasoning)
    return {{"type", is_summary() ? "summary_text" : "reasoning_text"}, {"text", item_.text}};
  return {{"type", "output_text"},
          {"annotations", ordered_json::array()},
          {"logprobs", item_.logprobs},
          {"text", item_.text}};
}

std::string ResponsesSerializer::open(Kind kind, ordered_json item) {
  std::string bytes = close("completed");
  item_ = {.kind = kind, .json = std::move(item), .text = {}, .input = {}};
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
    item = {
        {"id", random_id("rs_")}, {"type", "reasoning"}, {"status", "in_progress"}, {"summary", ordered_json::array()}};
    if (options_.raw_reasoning) item["content"] = ordered_json::array();
    if (options_.encrypted_reasoning) item["encrypted_content"] = nullptr;
  }
  std::string bytes = open(kind, std::move(item));
  const std::string_view type = is_summary() ? "response.reasoning_summary_part.added" : "response.content_part.added";
  return bytes + item_event(type, {{"part", content_part()}});
}

std::string ResponsesSerializer::open_call(const chat::Part& part) {
  const auto found = options_.tools.find(part.text);
  const OfferedTool tool =
      found == options_.tools.end() ? OfferedTool{ToolKind::kFunction, {}, part.text} : found->second;
  ordered_json item;
  switch (tool.kind) {
    case ToolKind::kFunction:
      item = {{"id", random_id("fc_")}, {"type", "function_call"}, {"status", "in_progress"},
              {"arguments", ""},        {"call_id", part.id},      {"name", tool.name}};
      if (!tool.name_space.empty()) item["namespace"] = tool.name_space;
      return open(Kind::kCall, std::move(item));
    case ToolKind::kCustom:
      item = {{"id", random_id("ctc_")}, {"type", "custom_tool_call"}, {"status", "in_progress"},
              {"call_id", part.id},      {"name", tool.name},          {"input", ""}};
      return open(Kind::kCustomCall, std::move(item));
    case ToolKind::kSearch:
      break;
  }
  item = {{"id", random_id("tsc_")}, {"type", "tool_search_call"}, {"status", "in_progress"},
          {"call_id", part.id},      {"execution", "client"},      {"arguments", ordered_json::object()}};
  return open(Kind::kSearchCall, std::move(item));
}

std::string ResponsesSerializer::say(const std::string& text) {
  if (text.empty() || item_.kind == Kind::kNone) return {};
  const std::string said = item_.kind == Kind::kCustomCall ? item_.input.add(text) : text;
  if (said.empty()) return {};
  item_.text += said;
  ordered_json fields = {{"delta", said}};
  if (options_.timings_per_token) fields["timings"] = so_far_.json();
  switch (item_.kind) {
    case Kind::kMessage:
      fields["logprobs"] = tokens_.take(said);
      for (const auto& entry : fields["logprobs"]) item_.logprobs.push_back(entry);
      return item_event("response.output_text.delta", std::move(fields));
    case Kind::kReasoning:
      return item_event(is_summary() ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta",
                        std::move(fields));
    case Kind::kCall:
      return item_event("response.function_call_arguments.delta", std::move(fields));
    case Kind::kCustomCall:
      return item_event("response.custom_tool_call_input.delta", std::move(fields));
    default:
      return {};  // a search is sent whole
  }
}

std::string ResponsesSerializer::close_text() {
  const bool message = item_.kind == Kind::kMessage, summary = is_summary();
  ordered_json part = content_part();
  ordered_json fields = {{"text", item_.text}};
  if (message) fields["logprobs"] = part["logprobs"];
  std::string bytes = item_event(message   ? "response.output_text.done"
                                 : summary ? "response.reasoning_summary_text.done"
                                           : "response.reasoning_text.done",
                                 std::move(fields));
  bytes +=
      item_event(summary ? "response.reasoning_summary_part.done" : "response.content_part.done", {{"part", part}});
  item_.json[summary ? "summary" : "content"].push_back(std::move(part));
  return bytes;
}

std::string ResponsesSerializer::close_call() {
  ordered_json& item = item_.json;
  if (item_.kind == Kind::kCall) {
    item["arguments"] = item_.text;
    return item_event("response.function_call_arguments.done", {{"name", item["name"]}, {"arguments", item_.text}});
  }
  if (item_.kind == Kind::kSearchCall) {
    auto arguments = read_json(item_.text);
    item["arguments"] = arguments && arguments->is_object() ? std::move(*arguments) : ordered_json(item_.text);
    return {};
  }
  std::string bytes;
  if (const std::string rest = item_.input.finish(); !rest.empty()) {
    item_.text += rest;
    bytes = item_event("response.custom_tool_call_input.delta", {{"delta", rest}});
  }
  item["input"] = item_.text;
  return bytes + item_event("response.custom_tool_call_input.done", {{"input", item_.text}});
}

std::string ResponsesSerializer::close(std::string_view status) {
  if (item_.kind == Kind::kNone) return {};
  item_.json["status"] = status;
  const bool text = item_.kind == Kind::kMessage || item_.kind == Kind::kReasoning;
  std::string bytes = text ? close_text() : close_call();
  bytes += event("response.output_item.done", {{"output_index", response_["output"].size()}, {"item", item_.json}});
  response_["output"].push_back(std::move(item_.json));
  item_ = {};
  return bytes;
}

std::string ResponsesSerializer::part(const chat::Part& part) {
  std::string bytes;
  if (part.kind >= chat::PartKind::kCallBegin) tokens_.pass_all_but_last();
  switch (part.kind) {
    case chat::PartKind::kContent:
    case chat::PartKind::kReasoning:
      if (part.text.empty()) break;
      if (part.kind == chat::PartKind::kReasoning) tokens_.pass(part.text);
      bytes = open_text(part.kind == chat::PartKind::kContent ? Kind::kMessage : Kind::kReasoning);
      bytes += say(part.text);
      break;
    case chat::PartKind::kCallBegin:
      bytes = open_call(part);
      break;
    case chat::PartKind::kArguments:
      bytes = say(part.text);
      break;
    case chat::PartKind::kCallEnd:
      bytes = close(part.state == chat::CallState::kWhole ? "completed" : "incomplete");
      break;
  }
  return bytes;
}

std::string ResponsesSerializer::parts(int, std::span<const chat::Part> parts, const engine::TokenEvent* event) {
  std::string bytes;
  if (event != nullptr) so_far_.token();
  if (options_.tokenizer != nullptr && event != nullptr)
    tokens_.add(event->text, sampled_logprob_json(*options_.tokenizer, *event));
  for (const chat::Part& one : parts) {
    if (cancelled_) break;
    bytes += part(one);
  }
  return bytes;
}

std::string ResponsesSerializer::finish(int, chat::ChatFinish&& finish) {
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
  ordered_json end = {{"response", response_}};
  const auto timings = response_.find("timings");
  if (options_.timings_per_token && timings != response_.end()) end["timings"] = *timings;
  return final_items_ +
         event(response_["status"] == "completed" ? "response.completed" : "response.incomplete", std::move(end));
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
