/// Counts of requests that have ended, for GET /metrics: for each model and key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "api/telemetry/request_record.h"
#include "base/histogram.h"

namespace cairn::api {

/// Pairs of a model and a key that have numbers of their own: anyone can make up keys, and each pair has some 80 lines
/// in GET /metrics. Further ones are counted together, as kOtherLabel.
inline constexpr size_t kMetricPairsMax = 64;
inline constexpr std::string_view kOtherLabel = "other";
/// The label of requests without a model or a key.
inline constexpr std::string_view kNoLabel = "none";

/// Server's thread.
class RequestMetrics {
 public:
  struct Pair {
    std::string model, key;
    auto operator<=>(const Pair&) const = default;
  };
  struct Outcome {
    std::string_view protocol;
    int status = 0;
    auto operator<=>(const Outcome&) const = default;
  };
  struct Counts {
    std::map<Outcome, int64_t> requests;
    std::map<std::string_view, int64_t> finishes;
    int64_t gone = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
    Histogram duration{kRequestSecondsBounds};
    Histogram first_token{kRequestSecondsBounds};
    Histogram queue{kRequestSecondsBounds};
  };

  void add(const RequestFacts& facts);
  const std::map<Pair, Counts>& pairs() const { return pairs_; }
  /// Sums over answers that have ended: for llama-server's names.
  double prefill_seconds() const { return prefill_seconds_; }
  double decode_seconds() const { return decode_seconds_; }
  int64_t sequence_tokens_max() const { return sequence_tokens_max_; }

 private:
  Counts& counts_of(const RequestFacts& facts);

  std::map<Pair, Counts> pairs_;
  double prefill_seconds_ = 0;
  double decode_seconds_ = 0;
  int64_t sequence_tokens_max_ = 0;
};

}  // namespace cairn::api
