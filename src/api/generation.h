/// From the engine's streams to one answer: the part that every protocol's generating endpoints share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "net/http_server.h"

namespace cairn::api {

inline constexpr int kChoicesMax = 128;  ///< prompts x n of one request

/// How a protocol writes an answer. Called on the server's thread. Each call returns bytes to send now; a writer that
/// does not stream returns nothing until `done`.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool streams() const = 0;
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
/// away, its requests are cancelled.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  /// Submits every request to the engine and begins to answer; an Error of any is answered at once and none runs.
  static void start(Engine& engine, std::vector<GenerateRequest> requests, std::unique_ptr<AnswerWriter> writer,
                    std::shared_ptr<net::HttpResponse> response);

  Generation(std::unique_ptr<AnswerWriter> writer, std::shared_ptr<net::HttpResponse> response);

 private:
  void listen();
  /// On the engine's thread: asks the server's thread to pump, once however many streams have events.
  void wake(net::HttpResponse& response);
  void pump();
  void fail(const Error& error);

  std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<net::HttpResponse> response_;
  std::vector<std::unique_ptr<GenerateStream>> streams_;
  std::vector<bool> finished_;
  std::atomic<bool> pump_posted_{false};
  bool over_ = false;
};

}  // namespace cairn::api
