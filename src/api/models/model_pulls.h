/// Models that clients have the server fetch and delete.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "hub/pull.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Pulls at once; more are answered 429.
inline constexpr size_t kPullsMax = 4;

/// What pulls and deletions need; without it there are none.
struct PullSettings {
  hub::PullOptions options;
  std::function<void(const std::filesystem::path&)> on_pulled;   ///< a model is complete at this path; may be null
  std::function<void(const std::filesystem::path&)> on_removed;  ///< a file is gone; may be null
};

/// Each pull has a thread of its own, and ends soon after its client has gone; what it loaded stays for the next one.
/// Thread-safe but for `allow`.
class ModelPulls {
 public:
  ~ModelPulls() { stop(); }
  /// Called before serving.
  void allow(PullSettings settings) { settings_ = std::make_unique<const PullSettings>(std::move(settings)); }
  /// Null: not allowed.
  const PullSettings* settings() const { return settings_.get(); }
  /// Answers with lines of JSON as Ollama's API has them, or without `stream` once it is over. `warnings`: of
  /// RequestContext::wanted_warnings. Errors: kQueueFull.
  Result<void> start(hub::ModelName name, bool stream, std::string warnings,
                     std::shared_ptr<net::HttpResponse> response);
  /// Cancels all and waits for them. Before the server is destroyed.
  void stop();

 private:
  struct Job;
  void run(Job& job) const;

  std::unique_ptr<const PullSettings> settings_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Job>> jobs_;
  bool stopped_ = false;
};

}  // namespace cairn::api
