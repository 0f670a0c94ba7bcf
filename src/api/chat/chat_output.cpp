#include "api/chat/chat_output.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace cairn::api {

ChatOutput::ChatOutput(std::unique_ptr<ChatSerializer> serializer, const chat::OutputContext& context, int choices,
                       TurnRecorder keep, StoreRunner store_runner)
    : serializer_(std::move(serializer)),
      hides_reasoning_(context.hides_reasoning),
      recorder_(std::move(keep)),
      store_runner_(std::move(store_runner)) {
  readers_.reserve(static_cast<size_t>(choices));
  for (int i = 0; i < choices; ++i) readers_.emplace_back(context);
}

std::span<const chat::Part> ChatOutput::shown(std::span<const chat::Part> parts) {
  if (!hides_reasoning_) return parts;
  shown_.clear();
  std::ranges::copy_if(parts, std::back_inserter(shown_),
                       [](const chat::Part& part) { return part.kind != chat::PartKind::kReasoning; });
  return shown_;
}

std::string ChatOutput::begin() {
  std::string bytes = serializer_->begin();
  for (size_t i = 0; i < readers_.size(); ++i) {
    const std::span<const chat::Part> parts = shown(readers_[i].begin());
    if (!parts.empty()) bytes += serializer_->parts(static_cast<int>(i), parts, nullptr);
  }
  return bytes;
}

std::string ChatOutput::token(int index, engine::TokenEvent&& event) {
  chat::AnswerReader& reader = readers_[static_cast<size_t>(index)];
  const std::span<const chat::Part> parts = shown(reader.token(event));
  if (!hides_reasoning_ || !reader.thought() || !parts.empty()) return serializer_->parts(index, parts, &event);
  serializer_->hidden_token();
  return {};
}

std::string ChatOutput::finish(int index, engine::Finish&& finish) {
  chat::AnswerReader& reader = readers_[static_cast<size_t>(index)];
  std::string bytes;
  if (const std::span<const chat::Part> parts = shown(reader.finish(finish)); !parts.empty())
    bytes = serializer_->parts(index, parts, nullptr);
  chat::ChatFinish chat = reader.result(std::move(finish));
  if (recorder_ && reader.ended_by_itself(chat)) {
    if (auto work = recorder_(reader, chat.turn)) to_store_.push_back(std::move(work));
  }
  if (hides_reasoning_) chat.turn.reasoning.clear();
  return bytes + serializer_->finish(index, std::move(chat));
}

bool ChatOutput::settle(const Error* error, std::function<void()> ready) {
  if (auto work = serializer_->settle(error)) to_store_.push_back(std::move(work));
  if (to_store_.empty()) return false;
  auto store = [works = std::exchange(to_store_, {})] {
    for (const auto& work : works) {
      try {
        work();
      } catch (...) {
        log_error("an answer was not stored: {}", thrown_error().text());
      }
    }
  };
  if (!store_runner_) {
    store();
    return false;
  }
  store_runner_([store = std::move(store), ready = std::move(ready)] {
    store();
    ready();
  });
  return true;
}

}  // namespace cairn::api
