#include "api/openai/chat_serializer.h"

#include "api/chat/tool_forms.h"
#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"
#include "base/version.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

std::string_view finish_name(chat::ChatFinishReason end, bool has_functions) {
  switch (end) {
    case chat::ChatFinishReason::kStop:
    case chat::ChatFinishReason::kStopString:
      return "stop";
    case chat::ChatFinishReason::kToolCalls:
      return has_functions ? "function_call" : "tool_calls";
    case chat::ChatFinishReason::kLength:
    case chat::ChatFinishReason::kCutCall:
    case chat::ChatFinishReason::kRepetition:
    case chat::ChatFinishReason::kCancelled:
      break;
  }
  return "length";
}

// OpenAI has no word for either: vLLM's stop_reason.
ordered_json stop_reason(const chat::ChatFinish& finish) {
  if (finish.reason == chat::ChatFinishReason::kStopString) return finish.stop;
  if (finish.reason == chat::ChatFinishReason::kRepetition) return "repetition";
  return nullptr;
}

using CustomTools = std::set<std::string, std::less<>>;

ordered_json call_json(const chat::ToolCall& call, const CustomTools& custom) {
  if (custom.contains(call.name)) {
    return {{"id", call.id},
            {"type", "custom"},
            {"custom", {{"name", call.name}, {"input", custom_input(call.arguments)}}}};
  }
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

ordered_json call_delta(int32_t index, ordered_json members) {
  ordered_json call = {{"index", index}};
  call.update(members);
  return {{"tool_calls", ordered_json::array({std::move(call)})}};
}

// Null for a part that says nothing on the wire.
ordered_json delta_of(const chat::Part& part, bool has_functions) {
  if (has_functions && part.call > 0) return nullptr;  // there is a place for one call
  switch (part.kind) {
    case chat::PartKind::kContent:
      return {{"content", part.text}};
    case chat::PartKind::kReasoning:
      return {{"reasoning_content", part.text}};
    case chat::PartKind::kCallBegin:
      if (has_functions) return {{"function_call", {{"name", part.text}, {"arguments", ""}}}};
      return call_delta(part.call, call_json({part.id, part.text, ""}, {}));
    case chat::PartKind::kArguments:
      if (has_functions) return {{"function_call", {{"arguments", part.text}}}};
      return call_delta(part.call, {{"function", {{"arguments", part.text}}}});
    case chat::PartKind::kCallEnd:
      break;
  }
  return nullptr;
}

ordered_json message_json(chat::ChatTurn&& turn, const OpenAiChatOptions& options) {
  ordered_json message = {{"role", "assistant"}, {"content", nullptr}};
  if (!turn.content.empty() || turn.calls.empty()) message["content"] = std::move(turn.content);
  message["refusal"] = nullptr;
  if (!turn.reasoning.empty()) message["reasoning_content"] = std::move(turn.reasoning);
  if (options.has_functions && !turn.calls.empty()) {
    const chat::ToolCall& call = turn.calls.front();
    message["function_call"] = {{"name", call.name}, {"arguments", call.arguments}};
    return message;
  }
  for (const chat::ToolCall& call : turn.calls) message["tool_calls"].push_back(call_json(call, options.custom_tools));
  return message;
}

}  // namespace

OpenAiChatSerializer::OpenAiChatSerializer(const ChatStart& start, OpenAiChatOptions options)
    : id_(start.id),
      model_(start.model.name),
      tokenizer_(*start.model.tokenizer),
      stream_(start.stream),
      options_(std::move(options)),
      prompt_tokens_(static_cast<int32_t>(start.prompt.size())),
      created_(unix_seconds_now()),
      choices_(static_cast<size_t>(start.choices)) {
  if (options_.extras.return_token_ids) prompt_.assign(start.prompt.begin(), start.prompt.end());
}

ordered_json OpenAiChatSerializer::envelope(std::string_view object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", kSystemFingerprint}};
}

std::string OpenAiChatSerializer::chunk(int choice, ordered_json delta, ordered_json logprobs,
                                        const ordered_json& finish, const ordered_json& prompt_progress) {
  ordered_json value = envelope("chat.completion.chunk");
  const AnswerExtras& extras = options_.extras;
  ordered_json item = {{"index", choice}, {"delta", std::move(delta)}, {"logprobs", std::move(logprobs)}};
  item["finish_reason"] = nullptr;
  if (!finish.is_null()) item.update(finish);
  if (extras.return_token_ids) {
    item["token_ids"] = std::exchange(choices_[static_cast<size_t>(choice)].token_ids, ordered_json::array());
    if (!begun_) value["prompt_token_ids"] = prompt_ids();
  }
  begun_ = true;
  value["choices"] = ordered_json::array({std::move(item)});
  if (extras.include_usage) value["usage"] = nullptr;
  if (extras.continuous_usage) value["usage"] = usage_so_far_json(prompt_tokens_, so_far_.predicted());
  // Beside the usage if there is one.
  if (!finish.is_null() && choice == 0 && !extras.include_usage) value.update(beside_);
  if (!prompt_progress.is_null()) value["prompt_progress"] = prompt_progress;
  const bool has_timings = so_far_.predicted() > 0 || !prompt_progress.is_null();
  if (extras.timings_per_token && finish.is_null() && has_timings) value["timings"] = so_far_.json();
  return sse_event(value);
}

std::string OpenAiChatSerializer::begin() {
  std::string bytes;
  for (size_t i = 0; i < choices_.size() && stream_; ++i)
    bytes += chunk(static_cast<int>(i), {{"role", "assistant"}, {"content", ""}}, nullptr);
  return bytes;
}

std::string OpenAiChatSerializer::prefill(int index, const engine::PrefillProgress& progress) {
  std::string bytes;
  so_far_.prompt(progress);
  if (!stream_ || !options_.extras.return_progress) return bytes;
  for (const engine::PrefillProgress& each : choices_[static_cast<size_t>(index)].prefill.next(progress)) {
    so_far_.prompt(each);
    bytes += chunk(index, ordered_json::object(), nullptr, nullptr, prefill_json(each));
  }
  return bytes;
}

void OpenAiChatSerializer::add_logprobs(Choice& choice, const engine::TokenEvent& event) const {
  if (!stream_) return choice.all_logprobs.add(sampled_logprob_json(tokenizer_, event));
  if (choice.logprobs.is_null()) choice.logprobs = {{"content", ordered_json::array()}, {"refusal", nullptr}};
  choice.logprobs["content"].push_back(sampled_logprob_json(tokenizer_, event));
}

std::string OpenAiChatSerializer::scores(int index, std::span<engine::PromptScore> scores) {
  // The choices have one prompt.
  for (const engine::PromptScore& score : scores)
    if (index == 0) prompt_logprobs_.add(prompt_logprob_json(tokenizer_, score));
  return {};
}

std::string OpenAiChatSerializer::parts(int index, std::span<const chat::Part> parts, const engine::TokenEvent* event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (options_.logprobs && event != nullptr) add_logprobs(choice, *event);
  if (event != nullptr) so_far_.token();
  if (event != nullptr && options_.extras.return_token_ids) choice.token_ids.push_back(cairn::index(event->token));
  if (!stream_) return {};
  std::string bytes;
  for (const chat::Part& part : parts) {
    ordered_json delta = custom_delta(choice, part);
    if (delta.is_null() && !choice.custom_arguments.contains(part.call)) delta = delta_of(part, options_.has_functions);
    if (!delta.is_null()) bytes += chunk(index, std::move(delta), std::exchange(choice.logprobs, nullptr));
  }
  if (!choice.logprobs.is_null() || !choice.token_ids.empty())  // the token's text is still held back
    bytes += chunk(index, ordered_json::object(), std::exchange(choice.logprobs, nullptr));
  return bytes;
}

// A custom call's input is known once its arguments, which are JSON, are whole.
ordered_json OpenAiChatSerializer::custom_delta(Choice& choice, const chat::Part& part) const {
  if (part.kind == chat::PartKind::kCallBegin) {
    if (!options_.custom_tools.contains(part.text)) return nullptr;
    choice.custom_arguments[part.call] = "";
    return call_delta(part.call, call_json({part.id, part.text, ""}, options_.custom_tools));
  }
  const auto found = choice.custom_arguments.find(part.call);
  if (found == choice.custom_arguments.end()) return nullptr;
  if (part.kind == chat::PartKind::kArguments) found->second += part.text;
  if (part.kind != chat::PartKind::kCallEnd) return nullptr;
  return call_delta(part.call, {{"custom", {{"input", custom_input(std::exchange(found->second, {}))}}}});
}

std::string OpenAiChatSerializer::finish(int index, chat::ChatFinish&& finish) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  add_usage(usage_, finish.usage, index == 0);
  reasoning_tokens_ += finish.reasoning_tokens;
  if (index == 0) {
    if (options_.lm_studio)
      beside_ = lm_studio_members(*options_.lm_studio, finish.usage, finish.timings,
                                  lm_studio_stop_reason(finish.reason, finish.context_full));
    beside_["timings"] = timings_json(finish.usage, finish.timings);
  }
  ordered_json end = {{"finish_reason", finish_name(finish.reason, options_.has_functions)}};
  if (ordered_json reason = stop_reason(finish); !reason.is_null()) end["stop_reason"] = std::move(reason);
  if (stream_) return chunk(index, ordered_json::object(), nullptr, end);
  std::string whole = dump({{"index", index}, {"message", message_json(std::move(finish.turn), options_)}});
  const bool has_logprobs = !choice.all_logprobs.empty();
  whole = with_member(std::move(whole), "logprobs",
                      has_logprobs ? R"({"content":)" + choice.all_logprobs.take() + R"(,"refusal":null})" : "null");
  if (options_.extras.return_token_ids) end["token_ids"] = std::move(choice.token_ids);
  whole = with_members(std::move(whole), end);
  choice.full_body = std::move(whole);
  return {};
}

ordered_json OpenAiChatSerializer::usage() const {
  ordered_json usage = usage_json(usage_);
  usage["completion_tokens_details"] = {{"reasoning_tokens", reasoning_tokens_}};
  return usage;
}

std::string OpenAiChatSerializer::done() {
  if (stream_) {
    std::string bytes;
    if (options_.extras.include_usage) {
      ordered_json value = envelope("chat.completion.chunk");
      value["choices"] = ordered_json::array();
      value["usage"] = usage();
      value.update(beside_);
      bytes = sse_event(value);
    }
    return bytes + "data: [DONE]\n\n";
  }
  std::string body = with_member(dump(envelope("chat.completion")), "choices", "[");
  body.pop_back();
  for (Choice& choice : choices_) {
    if (body.back() != '[') body += ',';
    body += std::exchange(choice.full_body, {});
  }
  body += "]}";
  if (options_.extras.prompt_logprobs) body = with_member(std::move(body), "prompt_logprobs", prompt_logprobs_.take());
  if (options_.extras.return_token_ids) body = with_member(std::move(body), "prompt_token_ids", dump(prompt_ids()));
  body = with_member(std::move(body), "usage", dump(usage()));
  return with_members(std::move(body), beside_);
}

std::string OpenAiChatSerializer::failure(const Error& error) { return sse_event(openai_error(error)); }

}  // namespace cairn::api::openai
