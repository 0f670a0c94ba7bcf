/// Tells of every request: the one place where the log's lines, the metrics' counts and the traces of requests begin
/// and end, whatever a request is answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "api/telemetry/request_metrics.h"
#include "api/telemetry/request_record.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Whose protocol an endpoint's is.
enum class Protocol { kOpenAi, kAnthropic, kOllama, kLlamaCpp, kLmStudio, kResponses, kCairn };
/// "openai", "llama.cpp": a literal.
std::string_view protocol_name(Protocol protocol);

/// Server's thread, but for what is said.
class Telemetry {
 public:
  /// Whether the log has lines of requests. Before serving.
  void set_log_requests(bool logs) { logs_requests_ = logs; }
  /// Is told of every request that has ended, on the server's thread, and must not wait. Before serving.
  void set_trace(std::function<void(const RequestFacts&)> trace) { trace_ = std::move(trace); }
  /// Whether what it is told has the texts of prompts and answers. Before serving.
  void set_traces_texts(bool texts) { traces_texts_ = texts; }

  /// A request has come over HTTP; it is over when its exchange is, which this outlives. `checks_keys`: what it shows
  /// for a key counts only once that is found to be one, with asked_by().
  std::shared_ptr<RequestRecord> begin(const net::HttpRequest& request, Protocol protocol, net::HttpResponse& response,
                                       bool checks_keys);
  /// It was let in: the log has a line of it, at `level`, and there is a trace.
  void let_in(RequestRecord& record, LogLevel level) const;
  /// It is a probe or asks for a file of the page: the log has a line at debug, and there is no trace.
  void let_in_quietly(RequestRecord& record) const;
  /// A request has come over a frames connection; whoever answers it calls `end`.
  std::shared_ptr<RequestRecord> begin_frames(std::string_view id);
  /// Once for each record; further calls change nothing.
  void end(RequestRecord& record, int status, bool delivered);

  const RequestMetrics& requests() const { return requests_; }
  /// Requests that have come and are not over. Any thread.
  int64_t in_progress() const { return in_progress_.load(std::memory_order_relaxed); }
  /// Counts requests whose trace is lost.
  const std::shared_ptr<std::atomic<int64_t>>& traces_dropped() const { return traces_dropped_; }

 private:
  std::shared_ptr<RequestRecord> begin(RequestFacts facts);

  bool logs_requests_ = true;
  bool traces_texts_ = false;
  std::function<void(const RequestFacts&)> trace_;
  RequestMetrics requests_;
  std::atomic<int64_t> in_progress_ = 0;
  const std::shared_ptr<std::atomic<int64_t>> traces_dropped_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace cairn::api
