/// From the engine's streams to one answer: the part that every protocol's generating endpoints share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/event_reader.h"
#include "base/function_ref.h"
#include "base/system/byte_budget.h"
#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

inline constexpr int kChoicesMax = 128;  ///< prompts x n of one request
/// Bytes of a stream that may wait for a client to read them. With more, its tokens stay in the engine's event
/// channels, which pause the requests when they are full; net/ drops a client that reads nothing for a while.
inline constexpr size_t kUnsentBytesMax = 32 << 10;
/// A log-probability, as JSON text and as a document.
inline constexpr int64_t kLogprobTextBytes = 128;
inline constexpr int64_t kLogprobDocumentBytes = 640;
/// How long one answer's tokens are written before others have their turn.
inline constexpr std::chrono::milliseconds kPumpTurn{4};

/// What a request holds until its end: its prompt, here and in the engine, and the events that may wait for the client.
int64_t held_bytes(const GenerateRequest& request);

/// How a protocol writes an answer. Called on the server's thread. Each call returns bytes to send now; a writer that
/// does not stream returns nothing until `done`.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool streams() const = 0;
  virtual net::StreamForm stream_form() const { return {}; }
  virtual ErrorShape error_shape() const { return ErrorShape::kOpenAi; }
  /// `cancel` ends the answer early, if called on the server's thread: its requests are cancelled, and a stream's
  /// `failure` then tells kCancelled, once. Called before begin.
  virtual void on_start(std::function<void()> /*cancel*/) {}
  /// Bytes that a log-probability takes here until the answer's end; 0: it is told at once.
  virtual int64_t kept_logprob_bytes() const { return streams() ? 0 : kLogprobTextBytes; }
  /// What goes out before any token, e.g. the role.
  virtual std::string begin() = 0;
  virtual std::string token(int choice, TokenEvent&& event) = 0;
  virtual std::string finish(int choice, Finish&& finish) = 0;
  /// Nothing follows but `done`, or of a stream `failure(*error)`. True: something is to be done before that which
  /// waits for a disk, and `ready` is called once when it is, on any thread. False: it need not be waited for, and
  /// `ready` is not called.
  virtual bool settle(const Error* /*error*/, std::function<void()> /*ready*/) { return false; }
  /// After every choice has finished: the end of a stream, or the whole body.
  virtual std::string done() = 0;
  /// A choice failed: for a stream, what tells the client so.
  virtual std::string failure(const Error& error) = 0;
};

/// Several engine requests that make one answer. Keeps itself alive until the exchange is over; when the client goes
/// away, its requests are cancelled; while it does not read, its tokens are not taken from the engine.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  /// Submits every request to the engine and begins to answer, soon; an Error of any is answered and none runs. `share`
  /// grows with what waits for the client: prompts, tokens and the parts of an answer that is sent whole. Over its
  /// budget: kOutOfMemory. Thread: any; all the rest happens on the server's.
  static void start(Engine& engine, std::vector<GenerateRequest> requests, std::unique_ptr<AnswerWriter> writer,
                    std::shared_ptr<net::HttpResponse> response, ByteShare share = {});

  Generation(std::unique_ptr<AnswerWriter> writer, std::shared_ptr<net::HttpResponse> response, ByteShare share);

 private:
  /// Runs `work`; what it throws is the answer's error.
  void guarded(FunctionRef<void()> work) noexcept;
  void begin(Engine& engine, std::vector<GenerateRequest> requests);
  void listen();
  void cancel();
  /// On the engine's thread: asks the server's thread to pump, once however many streams have events.
  void wake(net::HttpResponse& response);
  void pump();
  /// Appends what choice `index` has to say until `bytes` has `room`; false if there was no room for all of it.
  bool forward(size_t index, size_t room, std::string& bytes);
  /// Counts what is kept of a token until the answer is over. Error: kOutOfMemory.
  void hold(const TokenEvent& event);
  /// Pumps again when the client has read on.
  void wait_for_client();
  /// The end: `error_`, or all that there is to say.
  void end();
  void say_end();

  std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<net::HttpResponse> response_;
  struct Choice {
    EventReader events;
    bool finished = false;
  };
  std::vector<Choice> choices_;
  size_t first_ = 0;  // whose turn it is to be written first
  std::chrono::steady_clock::time_point turn_end_{};
  ByteShare share_;
  std::optional<Error> error_;
  bool cancelled_ = false;  // by `cancel`
  std::atomic<bool> pump_posted_{false};
  bool over_ = false;      // nothing is taken from the engine any more
  bool said_all_ = false;  // and the answer has its end
};

}  // namespace cairn::api
