/// What the page shows of the machine: GET /v1/metrics/stream, GET /v1/requests and POST /v1/requests/ID/cancel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "api/exchange.h"
#include "api/stream/running_requests.h"
#include "base/recent_log.h"
#include "loader/registry.h"

namespace cairn::api::web {

/// Time between two events of GET /v1/metrics/stream.
inline constexpr std::chrono::milliseconds kMonitorInterval{1'000};
/// Clients of GET /v1/metrics/stream at a time; more are answered 503.
inline constexpr size_t kMonitorStreamsMax = 32;
/// With more unsent, a client gets no event until it has read.
inline constexpr size_t kMonitorUnsentBytesMax = 256 << 10;

/// Keys that may not manage are answered 403. Thread: the server's.
class Monitor {
 public:
  /// `registry` and `requests` outlive this.
  Monitor(const loader::Registry& registry, RunningRequests& requests) : registry_(registry), requests_(requests) {}

  /// Streams an event with everything below now, and each kMonitorInterval: {"time": seconds of a steady clock,
  /// "models": [as /v1/metrics has them], "requests": [as /v1/requests], "log": [lines that are new], "memory":
  /// {"resident_bytes", "planned_bytes"}}.
  Result<void> handle_stream(Exchange& exchange);
  /// {"object": "list", "data": [{"id", "model", "choices", "prompt_tokens", "tokens", "age", "first_token_ms"}]}, the
  /// oldest first.
  Result<void> handle_requests(Exchange& exchange);
  /// 404 if no request of that id runs.
  Result<void> handle_cancel(Exchange& exchange);
  /// Called each kMonitorInterval.
  void tick();
  /// Has the next tick end all streams, which would hold up the server's end. Any thread.
  void close() { closing_.store(true, std::memory_order_relaxed); }

 private:
  nlohmann::ordered_json requests_json() const;
  std::string event(const std::vector<LogRecord>& lines, const loader::ModelScope& scope) const;

  const loader::Registry& registry_;
  RunningRequests& requests_;
  std::vector<std::shared_ptr<net::HttpResponse>> streams_;
  std::atomic<bool> closing_ = false;
  int64_t log_told_ = 0;  // number of the last line that all streams have
};

}  // namespace cairn::api::web
