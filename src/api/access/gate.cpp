#include "api/access/gate.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <utility>

#include "api/serialization/timestamps.h"
#include "net/http/forwarded_response.h"

namespace cairn::api {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr int64_t kMilliseconds = 1'000;  // of a second
constexpr int64_t kSecondsPerMinute = 60;

/// Limits that the party has, in the headers that the protocol's clients know.
Headers rate_headers(const RateMeter& meter, ErrorFormat format) {
  const RateState state = meter.state(RateMeter::Clock::now());
  Headers headers;
  const auto add = [&](std::string_view what, int64_t limit, int64_t left, std::chrono::milliseconds full) {
    if (limit == 0) return;
    if (format == ErrorFormat::kAnthropic) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      const int64_t at = std::chrono::duration_cast<std::chrono::microseconds>(now + full).count();
      headers.emplace_back(fmt::format("anthropic-ratelimit-{}-limit", what), fmt::format("{}", limit));
      headers.emplace_back(fmt::format("anthropic-ratelimit-{}-remaining", what), fmt::format("{}", left));
      headers.emplace_back(fmt::format("anthropic-ratelimit-{}-reset", what), rfc3339(at));
    } else {
      headers.emplace_back(fmt::format("x-ratelimit-limit-{}", what), fmt::format("{}", limit));
      headers.emplace_back(fmt::format("x-ratelimit-remaining-{}", what), fmt::format("{}", left));
      headers.emplace_back(fmt::format("x-ratelimit-reset-{}", what), reset_text(full));
    }
  };
  add("requests", state.limits.requests_per_minute, state.requests_left, state.requests_full);
  add("tokens", state.limits.tokens_per_minute, state.tokens_left, state.tokens_full);
  return headers;
}

/// Adds the headers to an answer, and ends the ticket with it.
class MeteredResponse final : public net::ForwardedResponse {
 public:
  MeteredResponse(std::shared_ptr<net::HttpResponse> response, AccessTicket ticket, ErrorFormat format)
      : ForwardedResponse(std::move(response)),
        meter_(ticket.principal()->meter()),
        format_(format),
        ticket_(std::move(ticket)) {}

  // The slot is free before the client has the answer: it may send its next request at once.
  void send(int status, std::string_view content_type, std::string body, Headers headers) override {
    end_ticket();
    add_to(headers);
    inner().send(status, content_type, std::move(body), std::move(headers));
  }
  void begin_events(Headers headers, net::StreamFormat form) override {
    add_to(headers);
    inner().begin_events(std::move(headers), form);
  }
  void end() override {
    end_ticket();
    inner().end();
  }

 private:
  void end_ticket() {
    const std::lock_guard lock(mutex_);
    ticket_.end();
  }
  void add_to(Headers& headers) const {
    Headers limits = rate_headers(*meter_, format_);
    headers.insert(headers.end(), std::make_move_iterator(limits.begin()), std::make_move_iterator(limits.end()));
  }

  const std::shared_ptr<RateMeter> meter_;
  const ErrorFormat format_;
  std::mutex mutex_;  // guards the next member
  AccessTicket ticket_;
};

void send_refusal(const Refusal& refusal, net::HttpResponse& response, ErrorFormat format) {
  Headers headers;
  if (refusal.reason == RefusalReason::kNoKey) headers.emplace_back("WWW-Authenticate", "Bearer");
  if (refusal.reason == RefusalReason::kOverLimit) {
    const int64_t seconds = (refusal.retry_after.count() + kMilliseconds - 1) / kMilliseconds;
    headers = rate_headers(*refusal.principal->meter(), format);
    headers.emplace_back("Retry-After", fmt::format("{}", std::max<int64_t>(1, seconds)));
  }
  const WireError wire = wire_error(refusal.reason, format);
  response.send(wire.status, "application/json", error_body(wire, refusal.message, format), std::move(headers));
}

}  // namespace

std::string reset_text(std::chrono::milliseconds time) {
  const int64_t milliseconds = time.count();
  if (milliseconds < kMilliseconds) return fmt::format("{}ms", milliseconds);
  const int64_t seconds = (milliseconds + kMilliseconds - 1) / kMilliseconds;
  if (seconds < kSecondsPerMinute) return fmt::format("{}s", seconds);
  return fmt::format("{}m{}s", seconds / kSecondsPerMinute, seconds % kSecondsPerMinute);
}

std::shared_ptr<net::HttpResponse> let_in(Access& access, net::HttpRequest& request,
                                          std::shared_ptr<net::HttpResponse> response, AccessRule rule,
                                          ErrorFormat format) {
  auto outcome = access.admit(request, rule);
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    send_refusal(*refusal, *response, format);
    return nullptr;
  }
  auto& ticket = std::get<AccessTicket>(outcome);
  request.owner = ticket.principal();
  if (ticket.principal()->meter() == nullptr) return response;
  return std::make_shared<MeteredResponse>(std::move(response), std::move(ticket), format);
}

}  // namespace cairn::api
