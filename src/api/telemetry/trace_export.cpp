#include "api/telemetry/trace_export.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/version.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;
using std::chrono::nanoseconds;

constexpr size_t kTraceIdDigits = 32;
constexpr size_t kSpanIdDigits = 16;
/// Kinds and status codes as the protocol numbers them.
constexpr int kInternalSpan = 1;
constexpr int kServerSpan = 2;
constexpr int kStatusError = 2;

bool is_id(std::string_view text, size_t digits) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == digits && std::ranges::all_of(text, is_hex) &&
         text.find_first_not_of('0') != std::string_view::npos;
}

std::string new_span_id() { return fmt::format("{:016x}", secure_random() | 1); }

ordered_json attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
/// 64-bit integers are strings in the JSON mapping.
ordered_json attribute(std::string_view key, int64_t value) {
  return {{"key", key}, {"value", {{"intValue", fmt::format("{}", value)}}}};
}

/// `begin` and `end`: nanoseconds since 1970.
ordered_json span(std::string_view name, int kind, const std::string& trace, const std::string& id, int64_t begin,
                  int64_t end) {
  return {{"traceId", trace},
          {"spanId", id},
          {"name", name},
          {"kind", kind},
          {"startTimeUnixNano", fmt::format("{}", begin)},
          {"endTimeUnixNano", fmt::format("{}", std::max(begin, end))}};
}

ordered_json attributes_of(const RequestFacts& facts) {
  ordered_json list = {attribute("http.request.method", facts.method), attribute("url.path", facts.path),
                       attribute("http.response.status_code", facts.status), attribute("cairn.request", facts.id),
                       attribute("cairn.protocol", facts.protocol)};
  if (!facts.key.empty()) list.push_back(attribute("cairn.key", facts.key));
  if (!facts.delivered) list.push_back(attribute("cairn.client_gone", "true"));
  if (facts.model.empty()) return list;
  list.push_back(attribute("gen_ai.response.model", facts.model));
  list.push_back(attribute("gen_ai.usage.input_tokens", facts.prompt_tokens));
  list.push_back(attribute("gen_ai.usage.output_tokens", facts.output_tokens));
  list.push_back(attribute("cairn.cached_tokens", facts.cached_tokens));
  if (facts.disk_tokens > 0) list.push_back(attribute("cairn.disk_tokens", facts.disk_tokens));
  if (facts.replayed.all() > 0) {
    list.push_back(attribute("cairn.turns.memory", facts.replayed.memory));
    list.push_back(attribute("cairn.turns.store", facts.replayed.store));
    list.push_back(attribute("cairn.turns.rendered", facts.replayed.rendered));
  }
  if (facts.wants_texts) {
    list.push_back(attribute("cairn.prompt", facts.prompt));
    list.push_back(attribute("cairn.answer", facts.answer));
  }
  if (!facts.finish.empty()) {
    list.push_back({{"key", "gen_ai.response.finish_reasons"},
                    {"value", {{"arrayValue", {{"values", {{{"stringValue", facts.finish}}}}}}}}});
  }
  return list;
}

/// The parts of a request's time lie around its first token: before it the prompt, before that the queue, behind it
/// the tokens. Parsing happens between tokens; its sum stands at the end.
void add_parts(const RequestFacts& facts, const std::string& trace, const std::string& parent, int64_t begin,
               ordered_json& spans) {
  const RequestTimes& times = facts.times;
  const int64_t end = begin + facts.duration.count();
  const int64_t first = facts.has_first_token ? begin + facts.first_token.count() : end;
  const int64_t admitted = std::max(begin, first - times.prefill.count());
  const auto add = [&](std::string_view name, int64_t from, int64_t to) {
    ordered_json part = span(name, kInternalSpan, trace, new_span_id(), from, std::min(to, end));
    part["parentSpanId"] = parent;
    spans.push_back(std::move(part));
  };
  add("queue", std::max(begin, admitted - times.queue.count()), admitted);
  add("prefill", admitted, first);
  if (!facts.has_first_token) return;
  add("decode", first, times.decode.count() > 0 ? first + times.decode.count() : end);
  add("parse", end - std::min(times.parse, facts.duration).count(), end);
}

void add_spans(const RequestFacts& facts, ordered_json& spans) {
  const auto parent = parse_traceparent(facts.traceparent);
  const std::string trace = parent ? parent->trace_id : random_id();
  const std::string id = new_span_id();
  const int64_t begin = std::chrono::duration_cast<nanoseconds>(facts.arrival.time_since_epoch()).count();
  ordered_json root = span(fmt::format("{} {}", facts.method, facts.path), kServerSpan, trace, id, begin,
                           begin + facts.duration.count());
  if (parent) root["parentSpanId"] = parent->span_id;
  root["attributes"] = attributes_of(facts);
  const int status = facts.error_status != 0 ? facts.error_status : facts.status;
  if (status >= 500) root["status"] = {{"code", kStatusError}};
  spans.push_back(std::move(root));
  if (!facts.model.empty()) add_parts(facts, trace, id, begin, spans);
}

size_t text_bytes_of(const RequestFacts& facts) { return facts.prompt.size() + facts.answer.size(); }

/// Whole lines, each with one write: other programs may write to the file, too.
bool write_line(int file, std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(file, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

// Version, trace, parent and flags (W3C Trace Context, "traceparent Header Field Values").
std::optional<TraceParent> parse_traceparent(std::string_view header) {
  constexpr size_t kVersionEnd = 2, kTrace = 3, kTraceEnd = kTrace + kTraceIdDigits, kSpan = kTraceEnd + 1,
                   kSpanEnd = kSpan + kSpanIdDigits, kFlags = kSpanEnd + 1, kEnd = kFlags + 2;
  if (header.size() < kEnd || header.substr(0, kVersionEnd) == "ff") return std::nullopt;
  if (header.substr(0, kVersionEnd) == "00" && header.size() != kEnd) return std::nullopt;
  if (header.size() > kEnd && header[kEnd] != '-') return std::nullopt;
  for (const size_t dash : {kVersionEnd, kTraceEnd, kSpanEnd})
    if (header[dash] != '-') return std::nullopt;
  const std::string_view trace = header.substr(kTrace, kTraceIdDigits);
  const std::string_view parent = header.substr(kSpan, kSpanIdDigits);
  if (!is_id(trace, kTraceIdDigits) || !is_id(parent, kSpanIdDigits)) return std::nullopt;
  const char low = header[kFlags + 1];
  const int flags = low >= 'a' ? low - 'a' + 10 : low - '0';
  return TraceParent{std::string(trace), std::string(parent), (flags & 1) != 0};
}

std::string otlp_json(const std::vector<RequestFacts>& requests) {
  ordered_json spans = ordered_json::array();
  for (const RequestFacts& facts : requests) add_spans(facts, spans);
  const ordered_json scope = {{"scope", {{"name", "cairn"}, {"version", kVersion}}}, {"spans", std::move(spans)}};
  ordered_json resource = {{"resource", {{"attributes", {attribute("service.name", "cairn")}}}},
                           {"scopeSpans", ordered_json::array({scope})}};
  return dump({{"resourceSpans", ordered_json::array({std::move(resource)})}});
}

Result<std::unique_ptr<TraceExporter>> TraceExporter::open(const std::string& url, const std::string& file,
                                                           std::shared_ptr<std::atomic<int64_t>> dropped) {
  std::string collector;
  if (!url.empty()) {
    CAIRN_TRY(collector, net::check_http_url(url));
    const bool has_path = collector.find('/', collector.find("://") + 3) != std::string::npos;
    if (!has_path) collector += "/v1/traces";
  }
  int descriptor = -1;
  if (!file.empty()) {
    constexpr int kOwnerOnly = 0600;
    descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwnerOnly);
    if (descriptor < 0) return fail(Code::kIo, "cannot write traces to {}: {}", file, std::strerror(errno));
  }
  return std::unique_ptr<TraceExporter>(new TraceExporter(std::move(collector), descriptor, std::move(dropped)));
}

TraceExporter::TraceExporter(std::string collector, int file, std::shared_ptr<std::atomic<int64_t>> dropped)
    : collector_(std::move(collector)), file_(file), dropped_(std::move(dropped)), thread_([this] { run(); }) {}

TraceExporter::~TraceExporter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (file_ >= 0) ::close(file_);
}

void TraceExporter::add(const RequestFacts& facts) {
  if (const auto parent = parse_traceparent(facts.traceparent); parent && !parent->sampled) return;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kTracesWaitingMax || waiting_text_bytes_ > kTraceTextBytesMax) {
      dropped_->fetch_add(1, std::memory_order_relaxed);
      return;
    }
    waiting_.push_back(facts);
    waiting_text_bytes_ += text_bytes_of(facts);
  }
  changed_.notify_all();
}

void TraceExporter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    changed_.wait_for(lock, kTracesDelay, [this] { return ends_ || waiting_.size() >= kTracesSentMax; });
    const size_t count = std::min(waiting_.size(), kTracesSentMax);
    const auto rest = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<RequestFacts> requests(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(rest));
    waiting_.erase(waiting_.begin(), rest);
    for (const RequestFacts& facts : requests) waiting_text_bytes_ -= text_bytes_of(facts);
    const bool ends = ends_;
    lock.unlock();
    write(requests);
    lock.lock();
    if (!ends || !collector_failed_) continue;
    dropped_->fetch_add(static_cast<int64_t>(waiting_.size()), std::memory_order_relaxed);
    return;  // nobody takes the rest
  }
}

void TraceExporter::write(const std::vector<RequestFacts>& requests) {
  const std::string document = otlp_json(requests);
  const bool written = file_ < 0 || write_line(file_, document);
  const bool sent = collector_.empty() || send(document);
  if (!written || !sent) dropped_->fetch_add(static_cast<int64_t>(requests.size()), std::memory_order_relaxed);
  if (!written) log_warning("traces cannot be written: {}", std::strerror(errno));
}

bool TraceExporter::send(const std::string& document) {
  const auto reply = client_.request({.url = collector_,
                                      .body = document,
                                      .headers = {{"Content-Type", "application/json"}},
                                      .stall = kCollectorTimeout});
  const bool taken = reply && reply->success();
  if (!taken && !std::exchange(collector_failed_, true)) {
    log_warning("the collector of --otlp takes no traces: {}; they are dropped until it does",
                reply ? fmt::format("it answers {}", reply->status) : reply.error().text());
  }
  if (taken && std::exchange(collector_failed_, false)) log_info("the collector of --otlp takes traces again");
  return taken;
}

}  // namespace cairn::api
