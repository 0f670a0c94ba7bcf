/// Many texts through a model that embeds or ranks, a few at a time: what those endpoints share.
///
/// A worker prepares the texts; the server's thread only hands them on and writes vectors down; the engine's does the
/// rest. When the client goes away, what is in the engine is cancelled and nothing more is submitted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/exchange.h"
#include "api/stream/event_reader.h"
#include "api/stream/response_stream.h"
#include "api/telemetry/request_record.h"
#include "base/error.h"
#include "base/system/byte_budget.h"
#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Texts of one request; and vectors times their dimensions, 256 MiB of text or so.
inline constexpr size_t kEmbedTextsMax = 16'384;
inline constexpr int64_t kEmbedValuesMax = 1 << 24;
/// Texts of one request in the engine at once: enough for batches, and room for others in its queue.
inline constexpr size_t kEmbedInFlightMax = 32;
/// Requests of more texts than that leave the first place to people who wait.
inline constexpr size_t kEmbedInteractiveTexts = 4;

/// A request's texts and where their vectors go. Called on the server's thread, `prepare` before that on a worker.
class EmbedTask {
 public:
  virtual ~EmbedTask() = default;
  virtual size_t texts() const = 0;
  /// Fills the prompt of the i-th text, and what EmbeddingOptions needs of it. Called in order, before anything is
  /// computed. What is cut of it is told.
  virtual Result<void> prepare(size_t i, RequestContext& context, engine::GenerateRequest& request) = 0;
  /// In whatever order they come.
  virtual Result<void> take(size_t i, std::vector<float> embedding) = 0;
  /// Once all are taken. `tokens` of all prompts.
  virtual std::string body(int64_t tokens) = 0;
  /// An error's `at` for the i-th text: "input[3]".
  virtual std::string path(size_t i) const = 0;
  /// Whether a request may ask that texts which do not fit are cut.
  virtual bool can_cut() const { return true; }
};

/// The text at `path` does not fit into the context.
Error too_long(const std::string& path, int64_t tokens, int64_t context_tokens, bool can_cut);

class EmbeddingRun final : public ResponseTask {
 public:
  /// Prepares the texts here, on a worker, where the request was read; `common` is what all share. Answers later.
  /// Errors: those of a text, and kOutOfMemory, as prompts and vectors count as the service's bytes. `engine` holds its
  /// model until the answer's end.
  static Result<void> start(Exchange& exchange, std::shared_ptr<engine::Engine> engine, engine::GenerateRequest common,
                            std::unique_ptr<EmbedTask> task);

  EmbeddingRun(const Exchange& exchange, std::shared_ptr<engine::Engine> engine, engine::GenerateRequest common,
               std::unique_ptr<EmbedTask> task);

  Progress begin(std::function<void()> wake) override;
  Progress advance(const Slice& slice) override;
  void fail(const Error& error) override { finish(std::unexpected(error)); }
  void abandon() noexcept override;

 private:
  struct Slot {
    EventReader events;
    size_t text = 0;
    bool over = false;
  };
  Result<void> prepare(RequestContext& context);
  /// Takes what has come, as far as there is time for it; kNoTime: there is more.
  Result<Progress> collect_some(const Slice& slice);
  /// What the engine has ended of a text.
  Result<void> take(size_t text, engine::Finish&& finish);
  Result<void> submit_some();
  void finish(const Result<void>& result);

  const std::shared_ptr<engine::Engine> engine_;  // first, so that its model goes last
  const engine::GenerateRequest common_;
  std::string warnings_;  // for the answer
  const std::shared_ptr<RequestRecord> record_;
  std::unique_ptr<EmbedTask> task_;
  std::shared_ptr<net::HttpResponse> response_;
  const ErrorFormat errors_;
  ByteShare share_;
  std::function<void()> wake_;
  std::vector<engine::GenerateRequest> prepared_;  // each until its vector is there
  std::vector<Slot> slots_;
  std::vector<size_t> again_;  // texts to be submitted once more
  size_t submitted_ = 0;       // besides those
  size_t taken_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace cairn::api
