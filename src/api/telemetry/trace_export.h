/// Traces of requests as OTLP/JSON: to a collector over HTTP (--otlp), and to a file (--trace).
///
/// A request is a span with a child for each part of its time. What the client's own trace is comes with the header
/// `traceparent` (W3C Trace Context). Sources: the OpenTelemetry protocol's JSON mapping, and the names of its semantic
/// conventions for HTTP and generative models.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/telemetry/request_record.h"
#include "base/error.h"
#include "net/http/http_client.h"

namespace cairn::api {

/// Requests whose traces wait to be written; further ones are dropped and counted.
inline constexpr size_t kTracesWaitingMax = 4'096;
/// Bytes of texts (--trace-text) in traces that wait; further ones are dropped as well.
inline constexpr size_t kTraceTextBytesMax = 64 << 20;
/// Requests whose traces are sent together, and how long the first of them waits for others.
inline constexpr size_t kTracesSentMax = 256;
inline constexpr std::chrono::milliseconds kTracesDelay{1'000};
/// Time that a collector has to answer.
inline constexpr std::chrono::seconds kCollectorTimeout{5};

/// Where a request belongs in its client's trace.
struct TraceParent {
  std::string trace_id;  ///< 32 hexadecimal digits
  std::string span_id;   ///< 16
  bool sampled = true;
};
/// Nothing for what is no traceparent, or of a version that cannot be.
std::optional<TraceParent> parse_traceparent(std::string_view header);

/// The document that has the spans of these requests. Ids are random but for those of the clients' traces.
std::string otlp_json(const std::vector<RequestFacts>& requests);

/// Owns a thread, which writes.
class TraceExporter {
 public:
  /// `url`: of a collector, to which "/v1/traces" is added if it has no path; `file`: gets a line for each document,
  /// behind what it has. Either may be empty. Dropped requests are counted in `dropped`. Errors: kInvalidArgument for
  /// the URL, kIo for the file.
  static Result<std::unique_ptr<TraceExporter>> open(const std::string& url, const std::string& file,
                                                     std::shared_ptr<std::atomic<int64_t>> dropped);
  /// Writes what waits, as long as the collector takes it.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  /// Thread-safe, does not wait. A request whose client's trace is not sampled has none.
  void add(const RequestFacts& facts);

 private:
  TraceExporter(std::string collector, int file, std::shared_ptr<std::atomic<int64_t>> dropped);
  void run();
  void write(const std::vector<RequestFacts>& requests);
  bool send(const std::string& document);

  const std::string collector_;  // URL; empty: none
  const int file_;               // -1: none
  const std::shared_ptr<std::atomic<int64_t>> dropped_;
  net::HttpClient client_;         // the thread's
  bool collector_failed_ = false;  // since it last took something; the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RequestFacts> waiting_;
  size_t waiting_text_bytes_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace cairn::api
