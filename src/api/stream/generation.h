/// Choices of tokens -> one answer: the part that every protocol's generating endpoints share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/stream/event_reader.h"
#include "api/stream/response_stream.h"
#include "api/stream/running_requests.h"
#include "api/telemetry/request_record.h"
#include "base/system/byte_budget.h"
#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

struct Exchange;

inline constexpr int kChoicesMax = 128;  ///< prompts x n of one request
/// A log-probability, as JSON text and as a document.
inline constexpr int64_t kLogprobTextBytes = 128;
inline constexpr int64_t kLogprobDocumentBytes = 640;
/// Scores of a prompt that are written in one go.
inline constexpr size_t kScoresAtOnce = 32;
/// What a request holds until its end: its prompt, here and in the engine, and the events that may wait for the client.
int64_t held_bytes(const engine::GenerateRequest& request);

/// How a protocol writes an answer. Called on the server's thread. Each call returns bytes to send now; a serializer
/// that does not stream returns nothing until `done`.
class ResponseSerializer {
 public:
  virtual ~ResponseSerializer() = default;
  virtual bool streams() const = 0;
  virtual net::StreamFormat stream_format() const { return {}; }
  /// `cancel` ends the answer early, if called on the server's thread: its requests are cancelled, and a stream's
  /// `failure` then tells kCancelled, once. Called before begin.
  virtual void on_start(std::function<void()> /*cancel*/) {}
  /// Whether a choice that `cancel` has ended has its `finish`, with kCancelled; else the answer fails.
  virtual bool finishes_cancelled() const { return false; }
  /// Bytes that a log-probability takes here until the answer's end; 0: it is told at once.
  virtual int64_t kept_logprob_bytes() const { return streams() ? 0 : kLogprobTextBytes; }
  /// What goes out before any token, e.g. the role.
  virtual std::string begin() = 0;
  /// Comes before the first token, of a request that asked for it (GenerateRequest::reports_prefill).
  virtual std::string prefill(int /*choice*/, const engine::PrefillProgress& /*progress*/) { return {}; }
  /// The next scores of the prompt's tokens, of a request that asked for them (GenerateRequest::prompt_logprobs): a few
  /// at a time, all of them before the first token.
  virtual std::string scores(int /*choice*/, std::span<engine::PromptScore> /*scores*/) { return {}; }
  virtual std::string token(int choice, engine::TokenEvent&& event) = 0;
  virtual std::string finish(int choice, engine::Finish&& finish) = 0;
  /// Nothing follows but `done`, or of a stream `failure(*error)`. True: something is to be done before that which
  /// waits for a disk, and `ready` is called once when it is, on any thread. False: it need not be waited for, and
  /// `ready` is not called.
  virtual bool settle(const Error* /*error*/, std::function<void()> /*ready*/) { return false; }
  /// After every choice has finished: the end of a stream, or the whole body.
  virtual std::string done() = 0;
  /// A choice failed: for a stream, what tells the client so.
  virtual std::string failure(const Error& error) = 0;
};

/// Where one answer goes: the exchange of an HTTP request, or the events of one request on a frames connection.
/// Server's thread.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  /// For the log.
  virtual std::string_view request_id() const = 0;
  /// Begins a stream.
  virtual void begin(net::StreamFormat form) = 0;
  /// A whole number of events.
  virtual void write(std::string_view bytes) = 0;
  /// The end of a stream.
  virtual void end() = 0;
  /// Whether an answer of that many bytes can be sent whole; the Error says why not.
  virtual Result<void> fits(size_t /*bytes*/) const { return {}; }
  /// An answer as a whole.
  virtual void send(std::string body) = 0;
  /// What is answered where no stream has begun.
  virtual void fail(const Error& error) = 0;
  /// Lets the client know by the connection's end that there is no answer.
  virtual void abandon() = 0;
};

/// What the engine computes for one request, and who writes it.
struct Answer {
  std::shared_ptr<engine::Engine> engine;  ///< holds its model until the answer's end; first, so that it goes last
  std::vector<engine::GenerateRequest> requests;
  std::unique_ptr<ResponseSerializer> serializer;
  ByteShare share;    ///< grows with what waits for the client: prompts, tokens, and answers that are sent whole
  Listing listing{};  ///< while it runs
  std::string prompt_field{"prompt"};  ///< of the request, for errors; of several prompts they say which: prompt[1]
  std::string warnings{};              ///< a JSON array for the answer (request_context.h); empty: none are wanted
  std::shared_ptr<RequestRecord> record{};  ///< is told how the answer goes; null: nobody asks
};

/// What errors call one of a request's prompts: "prompt" where it has but one, else "prompt[1]".
std::string prompt_path(std::string_view field, size_t prompt, size_t prompts);

/// Several engine requests that make one answer. When the client goes away, its requests are cancelled; while it does
/// not read, its tokens are not taken from the engine.
class Generation final : public ResponseTask, public Cancellable, public std::enable_shared_from_this<Generation> {
 public:
  /// Submits every request to the engine and begins to answer, soon, with the exchange's warnings; an Error of any is
  /// answered and none runs. Over the budget of its share: kOutOfMemory. Thread: any; all the rest happens on the
  /// server's.
  static void start(const Exchange& exchange, Answer answer);

  /// Any thread.
  Generation(Answer answer, std::unique_ptr<ResponseSink> sink);
  ~Generation() override;
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  Progress begin(std::function<void()> wake) override;
  Progress advance(const Slice& slice) override;
  void fail(const Error& error) override;
  void abandon() noexcept override;
  /// Ends the answer early: see ResponseSerializer::on_start.
  void cancel() override;

 private:
  void list_as_running();
  /// Appends the scores of a choice's prompt.
  Progress forward_scores(size_t index, size_t room, const Slice& slice, std::string& bytes);
  /// Where no stream was made for the next request, names the prompt that is too long. `begins`: whether a request is
  /// the first of its prompt.
  Error with_prompt_path(Error error, const std::vector<bool>& begins) const;
  /// Appends what choice `index` has to say until `bytes` has `room` or the time is over; kWaits: that was all.
  Progress forward(size_t index, size_t room, const Slice& slice, std::string& bytes);
  /// Counts what is kept of a token until the answer is over. Sets error_ if there is no room for it.
  void hold(const engine::TokenEvent& event);
  /// The same of `texts` bytes and of log-probabilities.
  void hold(size_t texts, size_t logprobs);
  /// The end: `error_`, or all that there is to say.
  Progress end(const Slice& slice);
  void say_end();
  /// Writes bytes of a stream.
  void write(std::string bytes);

  Answer answer_;
  RunningRequest* listed_ = nullptr;             // null: not in answer_.listing
  const std::shared_ptr<RequestRecord> record_;  // not null
  ResponseSerializer& serializer_;               // answer_'s
  std::unique_ptr<ResponseSink> sink_;
  std::function<void()> wake_;
  struct Choice {
    EventReader events;
    bool counts_prompt = true;  // false: the prompt is that of a choice before
    bool finished = false;
    int64_t tokens = 0;
  };
  std::vector<Choice> choices_;
  size_t first_ = 0;       // whose turn it is to be written first
  size_t text_bytes_ = 0;  // of all choices
  std::optional<Error> error_;
  bool cancelled_ = false;  // by `cancel`
  /// Set at the end, when nothing is taken from the engine any more: true as soon as the serializer has settled.
  std::shared_ptr<std::atomic<bool>> settled_;
  bool said_all_ = false;  // the answer has its end
};

}  // namespace cairn::api
