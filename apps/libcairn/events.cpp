#include "events.h"

#include <utility>

namespace cairn::library {
namespace {

constexpr std::string_view kCancelled = "cancelled";

std::string_view reason_text(chat::ChatFinishReason reason) {
  switch (reason) {
    case chat::ChatFinishReason::kStop:
    case chat::ChatFinishReason::kStopString:
      return "stop";
    case chat::ChatFinishReason::kLength:
    case chat::ChatFinishReason::kCutCall:
      return "length";
    case chat::ChatFinishReason::kToolCalls:
      return "tool_calls";
    case chat::ChatFinishReason::kRepetition:
      return "repetition";
    case chat::ChatFinishReason::kCancelled:
      break;
  }
  return kCancelled;
}

std::string_view reason_text(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kRepetition:
      return "repetition";
    case engine::FinishReason::kCancelled:
    case engine::FinishReason::kError:
      break;
  }
  return kCancelled;
}

cairn_event_type type_of(chat::PartKind kind) {
  switch (kind) {
    case chat::PartKind::kReasoning:
      return CAIRN_EVENT_REASONING;
    case chat::PartKind::kCallBegin:
      return CAIRN_EVENT_CALL_BEGIN;
    case chat::PartKind::kArguments:
      return CAIRN_EVENT_CALL_ARGUMENTS;
    case chat::PartKind::kCallEnd:
      return CAIRN_EVENT_CALL_END;
    case chat::PartKind::kContent:
      break;
  }
  return CAIRN_EVENT_TEXT;
}

/// The answer's body is written as if the request had not asked for a stream.
api::ChatStart whole(const api::ChatStart& start) {
  return {.id = start.id, .model = start.model, .choices = start.choices, .stream = false, .prompt = start.prompt};
}

api::openai::CompletionOptions whole(api::openai::CompletionOptions options) {
  options.stream = false;
  return options;
}

}  // namespace

Event EventQueue::take() {
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void EventQueue::token(int32_t choice, TokenId token) {
  const auto place = static_cast<size_t>(choice);
  if (tokens_.size() <= place) tokens_.resize(place + 1);
  tokens_[place].push_back(index(token));
}

void EventQueue::add(Event event) {
  if (const auto place = static_cast<size_t>(event.choice); place < tokens_.size())
    event.tokens = std::exchange(tokens_[place], {});
  if (event.type == CAIRN_EVENT_FINISH && event.text == kCancelled) cancelled_ = true;
  events_.push_back(std::move(event));
}

ChatEvents::ChatEvents(EventQueue& queue, const api::ChatStart& start, api::openai::OpenAiChatOptions options)
    : queue_(queue), body_(whole(start), std::move(options)) {}

std::string ChatEvents::parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) {
  if (event != nullptr) queue_.token(choice, event->token);
  for (const chat::Part& part : parts) {
    const bool is_end = part.kind == chat::PartKind::kCallEnd;  // its text is the call as the model wrote it
    if (!is_end && part.kind != chat::PartKind::kCallBegin && part.text.empty()) continue;
    queue_.add({.type = type_of(part.kind),
                .choice = choice,
                .call = part.call,
                .text = is_end ? std::string() : part.text,
                .id = part.id});
  }
  return body_.parts(choice, parts, event);
}

std::string ChatEvents::finish(int choice, chat::ChatFinish&& finish) {
  queue_.add({.type = CAIRN_EVENT_FINISH, .choice = choice, .text = std::string(reason_text(finish.reason))});
  return body_.finish(choice, std::move(finish));
}

CompletionEvents::CompletionEvents(EventQueue& queue, api::openai::CompletionOptions options,
                                   const tokenizer::Tokenizer& tokenizer)
    : queue_(queue),
      choices_(options.choices),
      choices_per_prompt_(options.choices_per_prompt),
      echoed_(options.echoed),
      body_(whole(std::move(options)), tokenizer) {}

std::string CompletionEvents::begin() {
  for (int32_t choice = 0; choice < choices_ && !echoed_.empty(); ++choice)
    queue_.add({.choice = choice, .text = echoed_[static_cast<size_t>(choice / choices_per_prompt_)]});
  return body_.begin();
}

std::string CompletionEvents::token(int choice, engine::TokenEvent&& event) {
  queue_.token(choice, event.token);
  if (!event.text.empty()) queue_.add({.choice = choice, .text = event.text});
  return body_.token(choice, std::move(event));
}

std::string CompletionEvents::finish(int choice, engine::Finish&& finish) {
  if (!finish.text.empty()) queue_.add({.choice = choice, .text = finish.text});
  queue_.add({.type = CAIRN_EVENT_FINISH, .choice = choice, .text = std::string(reason_text(finish.reason))});
  return body_.finish(choice, std::move(finish));
}

}  // namespace cairn::library
