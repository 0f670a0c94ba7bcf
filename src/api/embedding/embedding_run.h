/// Many texts through a model that embeds or ranks, a few at a time: what those endpoints share.
///
/// A worker prepares the texts; the server's thread only hands them on and writes vectors down, for kEmbedTurn at a
/// time; the engine's does the rest. When the client goes away, what is in the engine is cancelled and nothing more is
/// submitted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/errors.h"
#include "base/error.h"
#include "base/function_ref.h"
#include "base/system/byte_budget.h"
#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Texts of one request; and vectors times their dimensions, 256 MiB of text or so.
inline constexpr size_t kEmbedTextsMax = 16'384;
inline constexpr int64_t kEmbedValuesMax = 1 << 24;
/// Of one request in the engine at once: enough for batches, and room for others in its queue.
inline constexpr size_t kEmbedInFlightMax = 32;
/// How long other exchanges wait for one's turn.
inline constexpr std::chrono::milliseconds kEmbedTurn{4};
/// Requests of more texts than that leave the first place to people who wait.
inline constexpr size_t kEmbedInteractiveTexts = 4;

/// A request's texts and where their vectors go. Called on the server's thread, `prepare` before that on a worker.
class EmbedTask {
 public:
  virtual ~EmbedTask() = default;
  virtual size_t texts() const = 0;
  /// Fills the prompt of the i-th text, and what EmbeddingOptions needs of it. Called in order, before anything is
  /// computed.
  virtual Result<void> prepare(size_t i, GenerateRequest& request) = 0;
  /// In whatever order they come.
  virtual Result<void> take(size_t i, std::vector<float> embedding) = 0;
  /// Once all are taken. `tokens` of all prompts.
  virtual std::string body(int64_t tokens) = 0;
  virtual ErrorShape error_shape() const { return ErrorShape::kOpenAi; }
  /// An error's `at` for the i-th text: "input[3]".
  virtual std::string path(size_t i) const = 0;
};

/// Keeps itself alive until the exchange is over.
class EmbeddingRun : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  /// Prepares the texts here, on a worker; `common` is what all share. Answers through `response`, later. `share` grows
  /// with prompts and vectors; over its budget: kOutOfMemory.
  static void start(Engine& engine, GenerateRequest common, std::unique_ptr<EmbedTask> task,
                    std::shared_ptr<net::HttpResponse> response, ByteShare share = {});

  EmbeddingRun(Engine& engine, GenerateRequest common, std::unique_ptr<EmbedTask> task,
               std::shared_ptr<net::HttpResponse> response, ByteShare share);

 private:
  struct Slot {
    std::unique_ptr<GenerateStream> stream;
    size_t text = 0;
  };
  /// Runs `work`; what it throws is the answer.
  void guarded(FunctionRef<void()> work) noexcept;
  void begin();
  void pump();
  /// Asks for another turn, from any thread; once however many streams have events.
  void wake(net::HttpResponse& response);
  Result<void> prepare();
  Result<void> collect_some(std::chrono::steady_clock::time_point end);
  Result<void> submit_some();
  void finish(const Result<void>& result);

  Engine& engine_;
  const GenerateRequest common_;
  std::unique_ptr<EmbedTask> task_;
  std::shared_ptr<net::HttpResponse> response_;
  ByteShare share_;
  std::vector<GenerateRequest> prepared_;  // each until its vector is there
  std::vector<Slot> slots_;
  std::vector<size_t> again_;  // texts to be submitted once more
  size_t submitted_ = 0;       // besides those
  size_t taken_ = 0;
  int64_t tokens_ = 0;
  std::atomic<bool> turn_posted_{false};
  bool over_ = false;
};

}  // namespace cairn::api
