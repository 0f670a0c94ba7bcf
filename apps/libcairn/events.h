/// An answer as events for a program, and as the body that the server gives: each serializer tells the events, and has
/// OpenAI's own write the body.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "api/chat/chat_output.h"
#include "api/openai/chat_serializer.h"
#include "api/openai/completion_serializer.h"
#include "base/ids.h"
#include "cairn.h"

namespace cairn::library {

struct Event {
  cairn_event_type type = CAIRN_EVENT_TEXT;
  int32_t choice = -1;
  int32_t call = -1;
  std::string text{};
  std::string id{};
  std::vector<int32_t> tokens{};
};

/// The events that nobody has taken yet. Not thread-safe.
class EventQueue {
 public:
  bool empty() const { return events_.empty(); }
  /// Whether a choice has been cancelled.
  bool cancelled() const { return cancelled_; }
  /// The next one. There is one.
  Event take();
  /// The next event of the choice has this token.
  void token(int32_t choice, TokenId token);
  /// Gives the event the tokens that its choice has had since the last one.
  void add(Event event);

 private:
  std::deque<Event> events_;
  std::vector<std::vector<int32_t>> tokens_;  // of each choice, that no event has
  bool cancelled_ = false;
};

class ChatEvents final : public api::ChatSerializer {
 public:
  /// `queue` outlives this.
  ChatEvents(EventQueue& queue, const api::ChatStart& start, api::openai::OpenAiChatOptions options);
  bool streams() const override { return false; }
  bool finishes_cancelled() const override { return true; }
  std::string begin() override { return body_.begin(); }
  std::string prefill(int choice, const engine::PrefillProgress& progress) override {
    return body_.prefill(choice, progress);
  }
  std::string scores(int choice, std::span<engine::PromptScore> scores) override {
    return body_.scores(choice, scores);
  }
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override;
  void hidden_token() override { body_.hidden_token(); }
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::string done() override { return body_.done(); }
  std::string failure(const Error& error) override { return body_.failure(error); }

 private:
  EventQueue& queue_;
  api::openai::OpenAiChatSerializer body_;
};

class CompletionEvents final : public api::ResponseSerializer {
 public:
  /// `queue` and `tokenizer` outlive this.
  CompletionEvents(EventQueue& queue, api::openai::CompletionOptions options, const tokenizer::Tokenizer& tokenizer);
  bool streams() const override { return false; }
  bool finishes_cancelled() const override { return true; }
  std::string begin() override;
  std::string prefill(int choice, const engine::PrefillProgress& progress) override {
    return body_.prefill(choice, progress);
  }
  std::string scores(int choice, std::span<engine::PromptScore> scores) override {
    return body_.scores(choice, scores);
  }
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  std::string done() override { return body_.done(); }
  std::string failure(const Error& error) override { return body_.failure(error); }

 private:
  EventQueue& queue_;
  int32_t choices_;
  int32_t choices_per_prompt_;
  std::vector<std::string> echoed_;
  api::openai::CompletionSerializer body_;
};

}  // namespace cairn::library
