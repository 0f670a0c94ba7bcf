/// A chat's tokens -> content, reasoning and tool calls, which a protocol then writes in its own words.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "api/stream/generation.h"
#include "chat/chat_turn.h"
#include "chat/output/output_parser.h"

namespace cairn::api {

enum class ChatFinishReason {
  kStop,        ///< the model ended its turn
  kStopString,  ///< ChatFinish::stop came
  kLength,
  kToolCalls,   ///< the model ended its turn with calls, all whole
  kCutCall,     ///< the model ended its turn, or a stop string did, within a call
  kRepetition,  ///< the answer repeated itself without end (RepetitionDetector) and has been ended
  kCancelled,   ///< only for serializers that say so (finishes_cancelled)
};

struct ChatFinish {
  ChatFinishReason reason = ChatFinishReason::kStop;
  std::string stop;
  ChatTurn turn;
  Usage usage;
  int32_t reasoning_tokens = 0;  ///< of usage.completion_tokens
  Timings timings;
};

/// How a protocol writes a chat's answer: see ResponseSerializer, whose contract holds here too.
class ChatSerializer {
 public:
  virtual ~ChatSerializer() = default;
  virtual bool streams() const = 0;
  virtual net::StreamFormat stream_format() const { return {}; }
  virtual ErrorFormat error_format() const { return ErrorFormat::kOpenAi; }
  virtual int64_t kept_logprob_bytes() const { return streams() ? 0 : kLogprobTextBytes; }
  virtual void on_start(std::function<void()> /*cancel*/) {}
  virtual bool finishes_cancelled() const { return false; }
  virtual std::string begin() = 0;
  virtual std::string prefill(int /*choice*/, const PrefillProgress& /*progress*/) { return {}; }
  /// What became certain with `event`; null: at the beginning, for what was forced, and at the end. Every call's begin
  /// has an id. Called for every token, also with no parts.
  virtual std::string parts(int choice, std::span<const Part> parts, const TokenEvent* event) = 0;
  /// `finish.turn` holds all parts of the choice again.
  virtual std::string finish(int choice, ChatFinish&& finish) = 0;
  /// Like ResponseSerializer::settle, but returns the work instead of doing it; empty: there is none. The caller may
  /// run it on any thread.
  virtual std::function<void()> settle(const Error* /*error*/) { return {}; }
  virtual std::string done() = 0;
  virtual std::string failure(const Error& error) = 0;
};

/// What a chat's answer is read with.
struct OutputContext {
  OutputFormat format;
  nlohmann::ordered_json tools;  ///< null: no call is read
  std::string prompt;            ///< its end, as text: at least the last kPromptTailBytes of it
  std::string prefill;           ///< comes next; the client knows of it, so that its text is not sent
  std::string forced_prefix;     ///< the answer's beginning, which a required tool call forces on the model
  std::vector<std::string> template_stop_strings;  ///< stop strings that nobody asked for: they end the model's turn
  OfferedTools offered;                            ///< of which calls in another dress are read
  std::string model;                               ///< its name, for the log
  OutputParser parser() const;                     ///< has not read the forced prefix yet
};
inline constexpr size_t kPromptTailBytes = 1'024;

/// Told once per choice that ended by itself, with its tokens, of which thinking_end and on are the answer without the
/// thinking (kNoThinkingEnd: it begins within a token); for exact replay. Gives what is still to be done where it may
/// wait for a disk; empty: nothing.
using TurnRecorder =
    std::function<std::function<void()>(const ChatTurn& turn, std::span<const TokenId> tokens, size_t thinking_end)>;
/// Runs what may wait for a disk, later and elsewhere.
using StoreRunner = std::function<void(std::function<void()> work)>;

class ChatOutput final : public ResponseSerializer {
 public:
  /// Without a `store_runner`, what is to be stored is stored at once.
  ChatOutput(std::unique_ptr<ChatSerializer> serializer, const OutputContext& context, int choices, TurnRecorder keep,
             StoreRunner store_runner = {});
  ~ChatOutput() override;

  bool streams() const override { return serializer_->streams(); }
  net::StreamFormat stream_format() const override { return serializer_->stream_format(); }
  ErrorFormat error_format() const override { return serializer_->error_format(); }
  int64_t kept_logprob_bytes() const override { return serializer_->kept_logprob_bytes(); }
  void on_start(std::function<void()> cancel) override { serializer_->on_start(std::move(cancel)); }
  bool finishes_cancelled() const override { return serializer_->finishes_cancelled(); }
  std::string begin() override;
  std::string prefill(int choice, const PrefillProgress& progress) override {
    return serializer_->prefill(choice, progress);
  }
  std::string token(int choice, TokenEvent&& event) override;
  std::string finish(int choice, Finish&& finish) override;
  bool settle(const Error* error, std::function<void()> ready) override;
  std::string done() override { return serializer_->done(); }
  std::string failure(const Error& error) override { return serializer_->failure(error); }

 private:
  struct Choice;
  void collect(Choice& choice);
  /// Reads the prefill and leaves in parts_ what of it is no text.
  void skip_prefill(Choice& choice);

  std::unique_ptr<ChatSerializer> serializer_;
  std::string model_;
  int id_bytes_;
  std::string prefill_;
  std::string forced_prefix_;
  std::vector<std::string> template_stop_strings_;
  TurnRecorder recorder_;
  StoreRunner store_runner_;
  std::vector<std::function<void()>> to_store_;
  std::vector<Choice> choices_;
  std::vector<Part> parts_;  // scratch
};

/// A call's id that nobody else has: `bytes` letters and digits, or call_ and 24 of them if 0.
std::string make_call_id(int bytes = 0);
/// The one that a number gives.
std::string call_id_of(uint64_t number, int bytes);

}  // namespace cairn::api
