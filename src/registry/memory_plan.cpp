#include "registry/memory_plan.h"

#include <algorithm>
#include <limits>

namespace cairn {
namespace {

int64_t pages_for(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr double kKib = 1024, kMib = kKib * 1024, kGib = kMib * 1024;
  const auto value = static_cast<double>(bytes);
  if (value >= kGib) return fmt::format("{:.1f} GiB", value / kGib);
  if (value >= kMib) return fmt::format("{:.1f} MiB", value / kMib);
  return fmt::format("{:.1f} KiB", value / kKib);
}

std::string MemoryPlan::text() const {
  return fmt::format("weights {}, KV cache {} ({} tokens), scratch {}; {} available", bytes_text(weight_bytes),
                     bytes_text(kv_bytes), int64_t{kv_pages} * kPageTokens, bytes_text(scratch_bytes),
                     bytes_text(available_bytes));
}

Result<MemoryPlan> plan_memory(const ModelMemoryPlan& model, const MemoryWishes& wishes, int64_t available_bytes) {
  int64_t page_bytes = 0;
  for (const KvGroup& group : model.kv_layout.groups) page_bytes += model.kv_layout.page_bytes(group);
  const int64_t fixed = model.weight_bytes + model.scratch_bytes + kReservedBytes;
  const int64_t pages_that_fit = page_bytes == 0 ? std::numeric_limits<int32_t>::max()
                                                 : std::max<int64_t>(0, available_bytes - fixed) / page_bytes;
  const int64_t context_wanted = model.context_tokens;
  // Asked for: all of it. Not asked for: what fits, but never a context too short to be of use.
  const int64_t context_least =
      wishes.context_tokens != 0 ? context_wanted : std::min<int64_t>(kContextTokensMin, context_wanted);

  MemoryPlan plan;
  plan.weight_bytes = model.weight_bytes;
  plan.scratch_bytes = model.scratch_bytes;
  plan.available_bytes = available_bytes;
  int64_t pages = 0;
  if (wishes.kv_bytes != 0) {
    pages = page_bytes == 0 ? pages_for(context_wanted) : wishes.kv_bytes / page_bytes;
    if (pages < 1) {
      return fail(Code::kInvalidArgument, "a KV cache of {} holds no page: one takes {}; raise --kv-bytes",
                  bytes_text(wishes.kv_bytes), bytes_text(page_bytes));
    }
  } else {
    pages = std::min(pages_that_fit, pages_for(context_wanted) * std::max(1, wishes.sequences));
    pages = std::max(pages, pages_for(context_least));
  }
  pages = std::min<int64_t>(pages, std::numeric_limits<int32_t>::max() / 2);
  if (pages > pages_that_fit) {
    return fail(Code::kOutOfMemory,
                "not enough memory: weights {} + scratch {} + KV cache {} ({} tokens) + {} kept free = {} needed, {} "
                "available; "
                "use a smaller model or quantisation, a shorter --ctx or a smaller --kv-bytes",
                bytes_text(model.weight_bytes), bytes_text(model.scratch_bytes), bytes_text(pages * page_bytes),
                pages * kPageTokens, bytes_text(kReservedBytes), bytes_text(fixed + pages * page_bytes),
                bytes_text(available_bytes));
  }
  plan.kv_pages = static_cast<int32_t>(pages);
  plan.kv_bytes = pages * page_bytes;
  plan.context_tokens = static_cast<int32_t>(std::min(context_wanted, pages * kPageTokens));
  return plan;
}

}  // namespace cairn
