#include "api/telemetry/telemetry.h"

#include <string>
#include <utility>

#include "api/http/tenant.h"
#include "api/telemetry/request_log.h"

namespace cairn::api {
namespace {

/// Digits of the hash that a key's tenant is: enough to tell keys apart, too little to find the key by.
constexpr size_t kKeyDigitsShown = 8;
constexpr size_t kTraceparentBytesMax = 64;

std::string key_label(const net::HttpRequest& request) {
  const std::string tenant = tenant_of(request);
  return tenant.empty() ? tenant : "#" + tenant.substr(0, kKeyDigitsShown);
}

}  // namespace

std::string_view protocol_name(Protocol protocol) {
  switch (protocol) {
    case Protocol::kAnthropic:
      return "anthropic";
    case Protocol::kOllama:
      return "ollama";
    case Protocol::kLlamaCpp:
      return "llama.cpp";
    case Protocol::kLmStudio:
      return "lmstudio";
    case Protocol::kResponses:
      return "responses";
    case Protocol::kCairn:
      return "cairn";
    case Protocol::kOpenAi:
      break;
  }
  return "openai";
}

std::shared_ptr<RequestRecord> Telemetry::begin(RequestFacts facts) {
  facts.arrival = std::chrono::system_clock::now();
  facts.begin = std::chrono::steady_clock::now();
  facts.wants_texts = traces_texts_;
  in_progress_.fetch_add(1, std::memory_order_relaxed);
  return std::make_shared<RequestRecord>(std::move(facts));
}

std::shared_ptr<RequestRecord> Telemetry::begin(const net::HttpRequest& request, Protocol protocol,
                                                net::HttpResponse& response, bool checks_keys) {
  const std::string_view traceparent = request.header("traceparent");
  auto record = begin({.id = request.id,
                       .protocol = protocol_name(protocol),
                       .method = request.method,
                       .path = request.path,
                       .remote = request.remote,
                       .key = checks_keys ? std::string() : key_label(request),
                       .traceparent = std::string(traceparent.substr(0, kTraceparentBytesMax))});
  response.on_end([this, record](const net::ExchangeState& state) { end(*record, state.status, state.delivered); });
  return record;
}

std::shared_ptr<RequestRecord> Telemetry::begin_frames(std::string_view id) {
  auto record =
      begin({.id = std::string(id), .protocol = "frames", .method = "FRAME", .path = "frames", .remote = "unix"});
  let_in(*record, LogLevel::kInfo);
  return record;
}

void Telemetry::let_in(RequestRecord& record, LogLevel level) const {
  const RequestFacts facts = record.let_in(level, /*traced=*/true);
  if (logs_requests_) log_request_in(facts);
}

void Telemetry::let_in_quietly(RequestRecord& record) const {
  const RequestFacts facts = record.let_in(LogLevel::kDebug, /*traced=*/false);
  if (logs_requests_) log_request_in(facts);
}

void Telemetry::end(RequestRecord& record, int status, bool delivered) {
  if (!record.end(status, delivered)) return;
  in_progress_.fetch_sub(1, std::memory_order_relaxed);
  const RequestFacts facts = record.facts();
  requests_.add(facts);
  if (logs_requests_) log_request_out(facts);
  if (facts.let_in && trace_) trace_(facts);
}

}  // namespace cairn::api
