/// From the engine's streams to one answer: the part that every protocol's generating endpoints share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/errors.h"
#include "engine/engine.h"
#include "net/http_server.h"

namespace cairn::api {

inline constexpr int kChoicesMax = 128;  ///< prompts x n of one request
/// Bytes of a stream that may wait for a client to read them. With more, its tokens stay in the engine's event
/// channels, which pause the requests when they are full; net/ drops a client that reads nothing for a while.
inline constexpr size_t kUnsentBytesMax = 256 << 10;

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
  /// What goes out before any token, e.g. the role.
  virtual std::string begin() = 0;
  virtual std::string token(int choice, TokenEvent&& event) = 0;
  virtual std::string finish(int choice, Finish&& finish) = 0;
  /// After every choice has finished: the end of a stream, or the whole body.
  virtual std::string done() = 0;
  /// A choice failed: for a stream, what tells the client so.
  virtual std::string failure(const Error& error) = 0;
};

/// Several engine requests that make one answer. Keeps itself alive until the exchange is over; when the client goes
/// away, its requests are cancelled; while it does not read, its tokens are not taken from the engine.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  /// Submits every request to the engine and begins to answer; an Error of any is answered at once and none runs.
  static void start(Engine& engine, std::vector<GenerateRequest> requests, std::unique_ptr<AnswerWriter> writer,
                    std::shared_ptr<net::HttpResponse> response);

  Generation(std::unique_ptr<AnswerWriter> writer, std::shared_ptr<net::HttpResponse> response);

 private:
  void listen();
  void cancel();
  /// On the engine's thread: asks the server's thread to pump, once however many streams have events.
  void wake(net::HttpResponse& response);
  void pump();
  /// Appends what choice `index` has to say until `bytes` has `room`; false if there was no room for all of it.
  bool forward(size_t index, size_t room, std::string& bytes);
  /// Pumps again when the client has read on.
  void wait_for_client();
  void fail(const Error& error);

  std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<net::HttpResponse> response_;
  struct Choice {
    std::unique_ptr<GenerateStream> stream;
    Events events;    // taken from the stream; before `next` also written
    size_t next = 0;  // of events.tokens
    bool finished = false;
  };
  std::vector<Choice> choices_;
  size_t first_ = 0;  // whose turn it is to be written first
  std::optional<Error> error_;
  bool cancelled_ = false;  // by `cancel`
  std::atomic<bool> pump_posted_{false};
  bool over_ = false;
};

}  // namespace cairn::api
