/// A chat's answer, as it is read, which a protocol then writes in its own words.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/stream/generation.h"
#include "chat/answer/reader.h"
#include "chat/output_parts.h"

namespace cairn::api {

/// How a protocol writes a chat's answer: see ResponseSerializer, whose contract holds here too.
class ChatSerializer {
 public:
  virtual ~ChatSerializer() = default;
  virtual bool streams() const = 0;
  virtual net::StreamFormat stream_format() const { return {}; }
  virtual int64_t kept_logprob_bytes() const { return streams() ? 0 : kLogprobTextBytes; }
  virtual void on_start(std::function<void()> /*cancel*/) {}
  virtual bool finishes_cancelled() const { return false; }
  virtual std::string begin() = 0;
  virtual std::string prefill(int /*choice*/, const engine::PrefillProgress& /*progress*/) { return {}; }
  virtual std::string scores(int /*choice*/, std::span<engine::PromptScore> /*scores*/) { return {}; }
  /// What became certain with `event`; null: at the beginning, for what was forced, and at the end. Every call's begin
  /// has an id. Called for every token, also with no parts.
  virtual std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) = 0;
  /// Called in place of parts() for a token of which the client sees nothing, since it is one of a hidden thinking.
  virtual void hidden_token() {}
  /// `finish.turn` holds all parts of the choice again.
  virtual std::string finish(int choice, chat::ChatFinish&& finish) = 0;
  /// Like ResponseSerializer::settle, but returns the work instead of doing it; empty: there is none. The caller may
  /// run it on any thread.
  virtual std::function<void()> settle(const Error* /*error*/) { return {}; }
  virtual std::string done() = 0;
  virtual std::string failure(const Error& error) = 0;
};

/// Told once per choice that ended by itself, for exact replay. Gives what is still to be done where it may wait for a
/// disk; empty: nothing.
using TurnRecorder = std::function<std::function<void()>(const chat::AnswerReader& reader, const chat::ChatTurn& turn)>;
/// Runs what may wait for a disk, later and elsewhere.
using StoreRunner = std::function<void(std::function<void()> work)>;

class ChatOutput final : public ResponseSerializer {
 public:
  /// Without a `store_runner`, what is to be stored is stored at once.
  ChatOutput(std::unique_ptr<ChatSerializer> serializer, const chat::OutputContext& context, int choices,
             TurnRecorder keep, StoreRunner store_runner = {});

  bool streams() const override { return serializer_->streams(); }
  net::StreamFormat stream_format() const override { return serializer_->stream_format(); }
  int64_t kept_logprob_bytes() const override { return serializer_->kept_logprob_bytes(); }
  void on_start(std::function<void()> cancel) override { serializer_->on_start(std::move(cancel)); }
  bool finishes_cancelled() const override { return serializer_->finishes_cancelled(); }
  std::string begin() override;
  std::string prefill(int choice, const engine::PrefillProgress& progress) override {
    return serializer_->prefill(choice, progress);
  }
  std::string scores(int choice, std::span<engine::PromptScore> scores) override {
    return serializer_->scores(choice, scores);
  }
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  bool settle(const Error* error, std::function<void()> ready) override;
  std::string done() override { return serializer_->done(); }
  std::string failure(const Error& error) override { return serializer_->failure(error); }

 private:
  /// The parts that the client may see. They are valid until the next call.
  std::span<const chat::Part> shown(std::span<const chat::Part> parts);

  std::unique_ptr<ChatSerializer> serializer_;
  bool hides_reasoning_;
  std::vector<chat::Part> shown_;  // scratch
  TurnRecorder recorder_;
  StoreRunner store_runner_;
  std::vector<std::function<void()>> to_store_;
  std::vector<chat::AnswerReader> readers_;  // of the choices
};

}  // namespace cairn::api
