/// Reports on how the prompts of the last requests met the prefix cache, to find out why a prompt was computed again.
#pragma once

#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cache/prefix_cache.h"
#include "engine/engine_stats.h"
#include "engine/party.h"
#include "engine/sequence/sequence.h"

namespace cairn::engine {

/// What the disk tier has of a prompt beyond what memory has.
struct DiskLookup {
  int32_t tokens = 0;          ///< that are loaded
  std::string_view miss = {};  ///< PrefixReport::disk_miss
};

/// The last kPrefixReportsMax reports. Thread-safe.
class PrefixReports {
 public:
  PrefixReports() { reports_.reserve(kPrefixReportsMax); }
  /// Adds a report; if there is no memory for it, none is added.
  void add(const Sequence& sequence, const cache::PrefixHit& hit, const DiskLookup& disk) noexcept;
  /// Errors: see Engine::prefix_report.
  Result<PrefixReport> find(std::string_view id, const Party& asker) const;

 private:
  mutable std::mutex mutex_;  // guards the next two members
  std::vector<std::pair<Party, PrefixReport>> reports_;
  size_t next_ = 0;  // index of the report that is overwritten next, once there are kPrefixReportsMax
};

}  // namespace cairn::engine
