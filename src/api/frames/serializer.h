/// Answers on the frames socket: the events of one request, each a line of JSON (events.h).
#pragma once

#include <string>

#include "api/chat/chat_output.h"
#include "api/chat/run.h"
#include "api/stream/generation.h"

namespace cairn::api::frames {

/// What continues a text: every token an event, or without `stream` one event at the end.
class FramesTextSerializer final : public ResponseSerializer {
 public:
  FramesTextSerializer(std::string id, bool stream);
  bool streams() const override { return stream_; }
  int64_t kept_logprob_bytes() const override { return 0; }
  bool finishes_cancelled() const override { return true; }
  std::string begin() override { return {}; }
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  std::string done() override { return std::move(whole_); }
  std::string failure(const Error& error) override;

 private:
  std::string id_;
  bool stream_;
  std::string token_begin_;
  std::string text_;   // that no token event has said
  std::string whole_;  // without `stream`: the only event
};

/// What answers a conversation: content and reasoning in the tokens' events, tool calls in events of their own.
class FramesChatSerializer final : public ChatSerializer {
 public:
  /// `start.id` is the request's.
  explicit FramesChatSerializer(const ChatStart& start);
  bool streams() const override { return stream_; }
  int64_t kept_logprob_bytes() const override { return 0; }
  bool finishes_cancelled() const override { return true; }
  std::string begin() override { return {}; }
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override;
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::string done() override { return std::move(whole_); }
  std::string failure(const Error& error) override;

 private:
  std::string id_;
  bool stream_;
  std::string token_begin_;
  std::string content_, reasoning_;  // of a stream: that no token event has said
  std::string whole_;                // without `stream`: the only event
};

}  // namespace cairn::api::frames
