/// One answer that a program takes, event by event, on whatever thread it likes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/stream/generation.h"
#include "base/error.h"
#include "events.h"
#include "model.h"

namespace cairn::library {

/// Wakes whoever waits for the engine. Thread-safe; outlives the stream where the engine still holds it.
class Waker {
 public:
  void wake();
  /// Waits until somebody has called wake() since the last wait that returned true, but not past `deadline`.
  bool wait(std::optional<std::chrono::steady_clock::time_point> deadline);

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
};

class Stream {
 public:
  /// Submits the body of a request to /v1/chat/completions. Errors: those of the server.
  static Result<std::unique_ptr<Stream>> chat(std::shared_ptr<Model> model, const std::string& request);
  /// The same of /v1/completions.
  static Result<std::unique_ptr<Stream>> complete(std::shared_ptr<Model> model, const std::string& request);

  explicit Stream(std::shared_ptr<Model> model) : model_(std::move(model)) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Model& model() const { return *model_; }
  /// The next event, which lives until the next call; null: none came until `deadline` (unset: however long that
  /// takes). Errors: the request's.
  Result<const Event*> next(std::optional<std::chrono::steady_clock::time_point> deadline);
  /// Any thread.
  void cancel();
  /// Whether a choice has been cancelled. After the end.
  bool cancelled() const;
  /// The answer as a whole. Errors: kInvalidArgument, it is not there yet; kCancelled.
  Result<std::string> response() const;
  /// A JSON array.
  std::string warnings() const;

 private:
  class Sink;
  Result<void> start(api::Answer answer, const std::vector<std::string>& warnings);
  void advance();
  void catch_up(const auto& work);

  std::shared_ptr<Model> model_;  // first, so that it goes last
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::vector<std::string> warnings_;
  mutable std::mutex mutex_;  // guards what follows, but not last_
  EventQueue events_;
  std::shared_ptr<api::Generation> generation_;  // null: over
  bool over_ = false;
  std::optional<Error> error_;
  std::string body_;
  Event last_;
};

}  // namespace cairn::library
