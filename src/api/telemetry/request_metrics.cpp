#include "api/telemetry/request_metrics.h"

#include <algorithm>

namespace cairn::api {
namespace {

std::string label_of(std::string_view name) { return std::string(name.empty() ? kNoLabel : name); }

double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

RequestMetrics::Counts& RequestMetrics::counts_of(const RequestFacts& facts) {
  Pair pair{label_of(facts.model), label_of(facts.key)};
  const auto found = pairs_.find(pair);
  if (found != pairs_.end()) return found->second;
  if (pairs_.size() + 1 >= kMetricPairsMax) pair = {std::string(kOtherLabel), std::string(kOtherLabel)};
  return pairs_[std::move(pair)];
}

void RequestMetrics::add(const RequestFacts& facts) {
  Counts& counts = counts_of(facts);
  ++counts.requests[{facts.protocol, facts.status}];
  if (!facts.delivered) ++counts.gone;
  counts.duration.add(seconds_of(facts.duration));
  if (facts.model.empty()) return;
  ++counts.finishes[facts.finish.empty() ? kNoLabel : facts.finish];
  counts.prompt_tokens += facts.prompt_tokens;
  counts.cached_tokens += facts.cached_tokens;
  counts.output_tokens += facts.output_tokens;
  if (facts.has_first_token) counts.first_token.add(seconds_of(facts.first_token));
  if (!facts.finish.empty()) counts.queue.add(seconds_of(facts.times.queue));
  prefill_seconds_ += seconds_of(facts.times.prefill);
  decode_seconds_ += seconds_of(facts.times.decode);
  if (facts.choices > 0)
    sequence_tokens_max_ = std::max(sequence_tokens_max_, (facts.prompt_tokens + facts.output_tokens) / facts.choices);
}

}  // namespace cairn::api
