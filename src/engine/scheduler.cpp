#include "engine/scheduler.h"

#include <algorithm>

namespace cairn {

void plan_step(std::span<const Demand> demands, const StepLimits& limits, std::vector<Share>& plan) {
  plan.clear();
  int32_t logits_left = limits.logit_rows_max;
  int32_t prompts = 0;
  for (size_t i = 0; i < demands.size(); ++i) {
    if (!demands[i].decode) {
      ++prompts;
    } else if (logits_left > 0 && static_cast<int32_t>(plan.size()) < limits.rows_max) {
      plan.push_back({static_cast<int32_t>(i), 1, true});
      --logits_left;
    }
  }
  if (prompts == 0) return;

  const auto decodes = static_cast<ptrdiff_t>(plan.size());
  int32_t chunk = std::min(limits.chunk_rows_max, limits.rows_max - static_cast<int32_t>(decodes));
  const int32_t equal_part = std::max(1, chunk / prompts);
  for (size_t i = 0; i < demands.size(); ++i) {
    if (demands[i].decode) continue;
    const int32_t rows = std::min({demands[i].rows, equal_part, chunk});
    plan.push_back({static_cast<int32_t>(i), rows, false});
    chunk -= rows;
  }
  for (auto share = plan.begin() + decodes; share != plan.end(); ++share) {
    const int32_t wanted = demands[static_cast<size_t>(share->demand)].rows;
    const int32_t more = std::min(wanted - share->rows, chunk);
    share->rows += more;
    chunk -= more;
    if (share->rows < wanted) continue;
    // Without room for its logits the last row waits for another step.
    share->logits = logits_left > 0;
    share->logits ? --logits_left : --share->rows;
  }
  std::erase_if(plan, [](const Share& share) { return share.rows == 0; });
}

}  // namespace cairn
