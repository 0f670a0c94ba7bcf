/// The report of `cairn bench serve`: a readable table, and a CSV file with a line per request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/client.h"

namespace cairn::bench {

/// Maximum number of gaps between tokens kept for the table; later ones only count in their request's line of the CSV
/// file.
inline constexpr size_t kGapsMax = 1 << 24;

/// Nearest-rank percentile: the smallest value that at least `percent` % of the values do not exceed. `sorted` is not
/// empty.
double percentile(const std::vector<float>& sorted, double percent);

/// Collects samples, in any order. Not thread-safe.
class Report {
 public:
  explicit Report(TimePoint start) : start_(start) {}
  void add(Sample sample);

  /// Counts, failures by status, throughput and percentiles; with several mixes also for each of them.
  std::string table(const std::string& title) const;
  bool any_answered() const;
  /// A header and a line per request, in the order of their indices.
  std::string csv() const;

 private:
  struct Line {
    Sample sample;  // without gaps_ms
    float gap_p50 = 0, gap_p95 = 0, gap_worst = 0;
  };
  std::string section(const std::vector<const Line*>& lines, const std::vector<float>& gaps) const;

  TimePoint start_;
  std::vector<Line> lines_;
  std::vector<float> gaps_[kMixes];
  size_t gaps_count_ = 0;
};

}  // namespace cairn::bench
