/// What there is to tell of one request, from its arrival to its end, by whatever ends it.
///
/// Telemetry makes a record for each and tells of it at the end: a line of the log, numbers of GET /metrics, a trace.
/// Whoever reads or answers the request adds what it knows.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "chat/chat_prompt.h"
#include "engine/event.h"

namespace cairn::api {

/// The parts of a request's time that a trace shows.
struct RequestTimes {
  std::chrono::nanoseconds queue{0};    ///< in the engine's queue
  std::chrono::nanoseconds prefill{0};  ///< from its admission to the first token
  std::chrono::nanoseconds decode{0};   ///< from the first token to the last
  std::chrono::nanoseconds parse{0};    ///< the server's time for reading its tokens and writing them down
};

/// The bytes of a prompt, and of an answer, that a trace has at most (--trace-text).
inline constexpr size_t kTracedTextBytesMax = 64 << 10;

struct RequestFacts {
  std::string id{};
  std::string_view protocol{};  ///< a literal: "openai", "anthropic", ...
  std::string method{};
  std::string path{};
  std::string remote{};
  std::string key{};                    ///< what the client's API key is called here; empty: it sent none that counts
  bool let_in = false;                  ///< whether there is a trace of it; probes and refusals have none
  LogLevel log_level = LogLevel::kOff;  ///< of its line in the log; refusals have none
  std::string client_id{};              ///< what its client calls it; empty: nothing
  std::string traceparent{};            ///< of the request; empty: none
  std::chrono::system_clock::time_point arrival{};
  std::chrono::steady_clock::time_point begin{};

  std::string model{};  ///< that answers; empty: none was asked
  bool stream = false;
  int32_t choices = 0;  ///< or texts to embed
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t disk_tokens = 0;         ///< of them, from the disk tier
  chat::ReplayedTurns replayed{};  ///< turns of the assistant in the conversation
  int64_t output_tokens = 0;
  bool has_first_token = false;
  std::chrono::nanoseconds first_token{0};  ///< since `begin`
  RequestTimes times{};                     ///< the longest of its choices
  int32_t preemptions = 0;
  int32_t drafted = 0;
  int32_t accepted = 0;
  std::string_view finish{};  ///< a literal; empty: no answer has come to its end
  int error_status = 0;       ///< of an error that ended an answer; 0: none did

  bool wants_texts = false;  ///< whether the next two are kept
  std::string prompt{};      ///< as the model reads it, with its control tokens; cut at kTracedTextBytesMax
  std::string answer{};      ///< of the first choice, as the model writes it; cut likewise

  int status = 0;          ///< that the client was told; 0: none
  bool delivered = false;  ///< whether the client got all of it
  std::chrono::nanoseconds duration{0};
};

/// Thread-safe: a worker reads the request while the server's thread may find its client gone.
class RequestRecord {
 public:
  explicit RequestRecord(RequestFacts facts) : facts_(std::move(facts)) {}

  /// A model begins to answer. `prompt_tokens`: of prompts, each once however many choices it has.
  void answering(std::string_view model, int64_t prompt_tokens, int32_t choices, bool stream);
  /// The conversation's turns came into the prompt like this.
  void replayed(const chat::ReplayedTurns& turns);
  /// Whether the trace of the request has its texts.
  bool wants_texts() const;
  void prompt(std::string text);
  /// One token has come; `answers`: its text is the first choice's.
  void token(std::string_view text, bool answers);
  /// The end of a choice, of which `told` tokens have come. `counts_prompt`: false for further choices of a prompt.
  void finished(const engine::Finish& finish, int64_t told, bool counts_prompt);
  /// A choice, or all, could not be answered.
  void failed(const Error& error);
  /// Its client has shown the API key of this name.
  void asked_by(std::string key);
  /// Its client calls it so.
  void called(std::string_view client_id);
  /// It was not refused. `traced`: it is no probe either. `level`: of its line in the log.
  RequestFacts let_in(LogLevel level, bool traced);
  /// A text has become a vector.
  void embedded(const engine::Timings& timings);
  void parsed(std::chrono::nanoseconds time);
  /// The end. False: it had ended before.
  bool end(int status, bool delivered);

  RequestFacts facts() const;
  const std::string& id() const { return facts_.id; }

 private:
  void add_times(const engine::Timings& timings);

  mutable std::mutex mutex_;
  RequestFacts facts_;
  bool ended_ = false;
};

/// "stop", "length", ...
std::string_view finish_name(engine::FinishReason reason);

}  // namespace cairn::api
