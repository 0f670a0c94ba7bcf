#include "engine/kv/prefix_reports.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>

#include "base/log.h"

namespace cairn::engine {

void PrefixReports::add(const Sequence& sequence, const cache::PrefixHit& hit, const DiskLookup& disk) noexcept try {
  PrefixReport report;
  report.id = sequence.request_id();
  report.prompt_tokens = sequence.prompt_tokens();
  report.cached_tokens = hit.tokens;
  report.disk_tokens = disk.tokens;
  report.disk_miss = disk.miss;
  report.mismatch_position = hit.mismatch_position;
  report.mismatch_token = hit.mismatch_token;
  if (hit.mismatch_position >= 0) {
    const std::span<const TokenId> tokens = sequence.tokens();
    const auto begin = static_cast<size_t>(std::max(0, hit.mismatch_position - kReportTokensAround));
    const size_t end = std::min(tokens.size(), static_cast<size_t>(hit.mismatch_position + kReportTokensAround + 1));
    report.prompt_around.assign(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                tokens.begin() + static_cast<ptrdiff_t>(end));
    log_debug("{}: {} of {} prompt tokens were cached; at {} the prompt has token {}, the cache {}", report.id,
              hit.tokens, report.prompt_tokens, hit.mismatch_position,
              index(tokens[static_cast<size_t>(hit.mismatch_position)]), index(hit.mismatch_token));
  }
  const std::lock_guard lock(mutex_);
  if (reports_.size() < kPrefixReportsMax) {
    reports_.emplace_back(sequence.party(), std::move(report));
  } else {
    reports_[next_++ % kPrefixReportsMax] = {sequence.party(), std::move(report)};
  }
} catch (const std::bad_alloc&) {
  log_debug("no memory for a prefix report");
}

Result<PrefixReport> PrefixReports::find(std::string_view id, const Party& asker) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [party, report] : reports_) {
    const bool own = party.tenant == asker.tenant && (party.tenant != kNoTenant || party.client == asker.client);
    if (own && report.id == id) return report;
  }
  return fail_at("request", Code::kNotFound, "there is no request \"{}\" among the last {} that were admitted", id,
                 kPrefixReportsMax);
}

}  // namespace cairn::engine
