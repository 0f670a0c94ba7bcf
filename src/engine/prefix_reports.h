/// How the prompts of the last requests met the prefix cache, for those who wonder why theirs was computed again.
#pragma once

#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cache/prefix_cache.h"
#include "engine/engine_stats.h"
#include "engine/scheduling/party.h"
#include "engine/sequence.h"

namespace cairn {

/// The last kPrefixReportsMax of them. Thread-safe.
class PrefixReports {
 public:
  PrefixReports() { reports_.reserve(kPrefixReportsMax); }
  /// Without memory for the report there is none.
  void add(const Sequence& sequence, const PrefixHit& hit) noexcept;
  /// Errors: see Engine::prefix_report.
  Result<PrefixReport> find(std::string_view id, const Party& asker) const;

 private:
  mutable std::mutex mutex_;  // guards the next two
  std::vector<std::pair<Party, PrefixReport>> reports_;
  size_t next_ = 0;  // which is overwritten next, once there are as many as may be
};

}  // namespace cairn
