#include "api/telemetry/telemetry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/http/tenant.h"
#include "api/telemetry/request_log.h"

namespace cairn::api {
namespace {

/// Of the hash that a key's tenant is: enough to tell keys apart, too little to find the key by.
constexpr size_t kKeyDigitsShown = 8;
constexpr size_t kTraceparentBytesMax = 64;

constexpr std::string_view kLlamaPaths[] = {"/completion",    "/completions", "/infill",     "/props",         "/slots",
                                            "/lora-adapters", "/tokenize",    "/detokenize", "/apply-template"};
constexpr std::string_view kOwnPaths[] = {"/", "/health", "/v1/health", "/ready", "/stats", "/metrics", "/v1/metrics"};

std::string key_label(const net::HttpRequest& request) {
  const std::string tenant = tenant_of(request);
  return tenant.empty() ? tenant : "#" + tenant.substr(0, kKeyDigitsShown);
}

}  // namespace

std::string_view protocol_of(std::string_view path) {
  const auto is_among = [&](auto& paths) { return std::ranges::find(paths, path) != std::end(paths); };
  if (is_among(kOwnPaths)) return "cairn";
  if (path.starts_with("/v1/messages")) return "anthropic";
  if (path.starts_with("/v1/responses") || path == "/responses") return "responses";
  if (path.starts_with("/api/")) return "ollama";
  if (is_among(kLlamaPaths) || path.starts_with("/slots/")) return "llama.cpp";
  return "openai";
}

std::shared_ptr<RequestRecord> Telemetry::begin(RequestFacts facts) {
  facts.arrival = std::chrono::system_clock::now();
  facts.begin = std::chrono::steady_clock::now();
  if (logs_requests_) log_request_in(facts);
  in_progress_.fetch_add(1, std::memory_order_relaxed);
  return std::make_shared<RequestRecord>(std::move(facts));
}

std::shared_ptr<RequestRecord> Telemetry::begin(const net::HttpRequest& request, net::HttpResponse& response) {
  const std::string_view traceparent = request.header("traceparent");
  auto record = begin({.id = request.id,
                       .protocol = protocol_of(request.path),
                       .method = request.method,
                       .path = request.path,
                       .remote = request.remote,
                       .key = key_label(request),
                       .traceparent = std::string(traceparent.substr(0, kTraceparentBytesMax))});
  response.on_end([this, record](const net::ExchangeState& state) { end(*record, state.status, state.delivered); });
  return record;
}

std::shared_ptr<RequestRecord> Telemetry::begin_frames(std::string_view id) {
  return begin({.id = std::string(id), .protocol = "frames", .method = "FRAME", .path = "frames", .remote = "unix"});
}

void Telemetry::end(RequestRecord& record, int status, bool delivered) {
  if (!record.end(status, delivered)) return;
  in_progress_.fetch_sub(1, std::memory_order_relaxed);
  const RequestFacts facts = record.facts();
  requests_.add(facts);
  if (logs_requests_) log_request_out(facts);
  if (trace_) trace_(facts);
}

}  // namespace cairn::api
