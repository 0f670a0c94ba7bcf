#include "api/telemetry/request_record.h"

#include <algorithm>
#include <utility>

#include "api/errors.h"
#include "base/text/printable.h"

namespace cairn::api {

std::string_view finish_name(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kRepetition:
      return "repetition";
    case engine::FinishReason::kCancelled:
      return "cancelled";
    case engine::FinishReason::kError:
      break;
  }
  return "error";
}

void RequestRecord::answering(std::string_view model, int64_t prompt_tokens, int32_t choices, bool stream) {
  const std::lock_guard lock(mutex_);
  facts_.model = model;
  facts_.prompt_tokens = prompt_tokens;
  facts_.choices = choices;
  facts_.stream = stream;
}

void RequestRecord::replayed(const chat::ReplayedTurns& turns) {
  const std::lock_guard lock(mutex_);
  facts_.replayed = turns;
}

bool RequestRecord::wants_texts() const {
  const std::lock_guard lock(mutex_);
  return facts_.wants_texts;
}

void RequestRecord::prompt(std::string text) {
  const std::lock_guard lock(mutex_);
  facts_.prompt = cut_text(text, kTracedTextBytesMax);
}

void RequestRecord::token(std::string_view text, bool answers) {
  const std::lock_guard lock(mutex_);
  if (facts_.wants_texts && answers && facts_.answer.size() < kTracedTextBytesMax) facts_.answer += text;
  ++facts_.output_tokens;
  if (std::exchange(facts_.has_first_token, true)) return;
  facts_.first_token = std::chrono::steady_clock::now() - facts_.begin;
}

void RequestRecord::called(std::string_view client_id) {
  const std::lock_guard lock(mutex_);
  facts_.client_id = client_id;
}

RequestFacts RequestRecord::let_in(LogLevel level, bool traced) {
  const std::lock_guard lock(mutex_);
  facts_.let_in = traced;
  facts_.log_level = level;
  return facts_;
}

void RequestRecord::add_times(const engine::Timings& timings) {
  RequestTimes& times = facts_.times;
  times.queue = std::max(times.queue, timings.queue);
  times.prefill = std::max(times.prefill, timings.prefill);
  times.decode = std::max(times.decode, timings.decode);
}

void RequestRecord::finished(const engine::Finish& finish, int64_t told, bool counts_prompt) {
  const std::lock_guard lock(mutex_);
  facts_.finish = finish_name(finish.reason);
  // A token that ended the answer has no event.
  facts_.output_tokens += std::max<int64_t>(0, finish.usage.completion_tokens - told);
  if (counts_prompt) {
    facts_.cached_tokens += finish.usage.cached_tokens;
    facts_.disk_tokens += finish.usage.disk_tokens;
  }
  facts_.preemptions += finish.timings.preemptions;
  facts_.drafted += finish.timings.drafted;
  facts_.accepted += finish.timings.accepted;
  add_times(finish.timings);
}

void RequestRecord::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  facts_.finish = error.code == Code::kCancelled ? "cancelled" : "error";
  facts_.error_status = wire_error(error.code).status;
}

void RequestRecord::asked_by(std::string key) {
  const std::lock_guard lock(mutex_);
  facts_.key = std::move(key);
}

void RequestRecord::embedded(const engine::Timings& timings) {
  const std::lock_guard lock(mutex_);
  facts_.finish = "embedded";
  add_times(timings);
}

void RequestRecord::parsed(std::chrono::nanoseconds time) {
  const std::lock_guard lock(mutex_);
  facts_.times.parse += time;
}

bool RequestRecord::end(int status, bool delivered) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return false;
  facts_.status = status;
  facts_.delivered = delivered;
  facts_.duration = std::chrono::steady_clock::now() - facts_.begin;
  return true;
}

RequestFacts RequestRecord::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

}  // namespace cairn::api
