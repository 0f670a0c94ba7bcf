#include "api/web/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/access/principal.h"
#include "api/serialization/json_text.h"
#include "api/stats.h"
#include "base/recent_log.h"
#include "base/system/machine.h"
#include "base/text/printable.h"
#include "loader/draft.h"

namespace cairn::api::web {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
    case LogLevel::kOff:
      break;
  }
  return "error";
}

ordered_json request_json(const RunningRequest& request, Clock::time_point now) {
  ordered_json item = {{"id", request.id},           {"model", request.model},
                       {"choices", request.choices}, {"prompt_tokens", request.prompt_tokens},
                       {"tokens", request.tokens},   {"age", seconds_of(now - request.begun)},
                       {"first_token_ms", nullptr}};
  if (request.first_token != Clock::time_point{})
    item["first_token_ms"] = seconds_of(request.first_token - request.begun) * 1e3;
  return item;
}

ordered_json log_json(const std::vector<LogRecord>& lines) {
  ordered_json list = ordered_json::array();
  for (const LogRecord& line : lines) {
    const std::chrono::duration<double> time = line.time.time_since_epoch();
    list.push_back(
        {{"number", line.number}, {"time", time.count()}, {"level", level_name(line.level)}, {"text", line.text}});
  }
  return list;
}

/// Whether who sends the request may see what others do here, and cancel it; if not, that is the answer.
bool lets_watch(const Exchange& exchange) {
  if (principal_of(exchange.request).may_manage()) return true;
  exchange.response->send(403, "application/json",
                          error_body(403, "this key may not see the server's other requests", exchange.errors));
  return false;
}

}  // namespace

Result<void> Monitor::handle_stream(Exchange& exchange) {
  if (!lets_watch(exchange)) return {};
  if (streams_.size() >= kMonitorStreamsMax)
    return fail(Code::kUnavailable, "{} clients watch this server already", kMonitorStreamsMax);
  const auto lines = recent_log_lines();
  if (streams_.empty() && !lines.empty()) log_told_ = lines.back().number;
  net::HttpResponse* const stream = exchange.response.get();
  stream->begin_events();
  stream->write(event(lines, exchange.context.scope()));
  streams_.push_back(exchange.response);
  stream->on_close(
      [this, stream] { std::erase_if(streams_, [stream](const auto& each) { return each.get() == stream; }); });
  return {};
}

Result<void> Monitor::handle_requests(Exchange& exchange) {
  if (!lets_watch(exchange)) return {};
  return send_json(exchange, {{"object", "list"}, {"data", requests_json()}});
}

Result<void> Monitor::handle_cancel(Exchange& exchange) {
  if (!lets_watch(exchange)) return {};
  const std::string& id = exchange.context.id();
  if (requests_.cancel(id)) return send_json(exchange, {{"id", id}, {"object", "request"}, {"cancelled", true}});
  return fail(Code::kNotFound, "no request \"{}\" runs; GET /v1/requests lists those that do",
              cut_text(id, kQuotedBytesMax));
}

void Monitor::tick() {
  if (streams_.empty()) return;
  if (closing_.load(std::memory_order_relaxed)) {
    for (const auto& stream : streams_) stream->end();
    return;
  }
  const auto lines = recent_log_lines(log_told_);
  if (!lines.empty()) log_told_ = lines.back().number;
  const std::string bytes = event(lines, loader::kEveryModel);
  for (const auto& stream : streams_)
    if (stream->unsent_bytes() <= kMonitorUnsentBytesMax) stream->write(bytes);
}

ordered_json Monitor::requests_json() const {
  std::vector<const RunningRequest*> running;
  requests_.each([&](const RunningRequest& request) { running.push_back(&request); });
  std::ranges::sort(running, {}, &RunningRequest::begun);
  const auto now = Clock::now();
  ordered_json list = ordered_json::array();
  for (const RunningRequest* request : running) list.push_back(request_json(*request, now));
  return list;
}

std::string Monitor::event(const std::vector<LogRecord>& lines, const loader::ModelScope& scope) const {
  ordered_json models = ordered_json::array();
  int64_t planned = 0;
  for (const auto& model : registry_.list(scope)) {
    models.push_back(model_stats(*model));
    planned += model->plan.bytes() + (model->draft == nullptr ? 0 : model->draft->plan.bytes());
  }
  return sse_event({{"time", seconds_of(Clock::now().time_since_epoch())},
                    {"models", std::move(models)},
                    {"requests", requests_json()},
                    {"log", log_json(lines)},
                    {"memory", {{"resident_bytes", resident_bytes()}, {"planned_bytes", planned}}}});
}

}  // namespace cairn::api::web
