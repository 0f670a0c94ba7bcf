#include "registry/memory_plan.h"

#include <algorithm>
#include <limits>

namespace cairn {
namespace {

/// Far above any machine, far below where sums of pages or their tokens overflow.
constexpr int64_t kPagesMax = 1 << 26;
constexpr int64_t kBytesMax = int64_t{1} << 60;

/// Pages of every group when sequences together may have `pages` pages of positions, and what they take.
struct Division {
  std::vector<int32_t> kv_pages;
  int64_t bytes = 0;
};

class Divider {
 public:
  Divider(const KvLayout& layout, const MemoryWishes& wishes) : layout_(layout), wishes_(wishes) {}

  /// `budget` bounds the state slots, and nothing else.
  Division divide(int64_t pages, int64_t budget) const {
    Division division;
    for (const KvGroup& group : layout_.groups) {
      const int64_t page_bytes = layout_.page_bytes(group);
      int64_t wanted = pages;
      if (group.kind == KvKind::kWindow) wanted = window_pages(group, pages);
      if (group.kind == KvKind::kState) wanted = state_slots(page_bytes, budget);
      division.kv_pages.push_back(static_cast<int32_t>(wanted));
      int64_t bytes = 0;
      if (__builtin_mul_overflow(wanted, page_bytes, &bytes) ||
          __builtin_add_overflow(division.bytes, bytes, &division.bytes)) {
        return {{}, kBytesMax};
      }
    }
    division.bytes = std::min(division.bytes, kBytesMax);
    return division;
  }
  /// The most pages of at most `pages_max` whose division fits the budget; 0 if one page does not.
  int64_t largest(int64_t budget, int64_t pages_max) const {
    int64_t fits = 0;
    for (int64_t beyond = pages_max + 1; beyond - fits > 1;) {
      const int64_t pages = fits + (beyond - fits) / 2;
      (divide(pages, budget).bytes <= budget ? fits : beyond) = pages;
    }
    return fits;
  }

 private:
  int64_t window_pages(const KvGroup& group, int64_t pages) const {
    const int64_t of_sequence = int64_t{pages_for(group.window)} + pages_for(wishes_.chunk_tokens) + kWindowPagesExtra;
    return std::min(pages, of_sequence * std::max(1, wishes_.sequences_running) + pages / kWindowPagesKept);
  }
  int64_t state_slots(int64_t slot_bytes, int64_t budget) const {
    const int64_t wanted = int64_t{std::max(1, wishes_.sequences_running)} * (1 + kCheckpointsPerSequence);
    const int64_t parts = state_groups() * (layout_.token_bytes() > 0 ? kStateShare : 1);
    const int64_t share = slot_bytes == 0 ? wanted : budget / parts / slot_bytes;
    return std::clamp<int64_t>(share, kStateSlotsMin, std::max<int64_t>(wanted, kStateSlotsMin));
  }
  int64_t state_groups() const { return std::ranges::count(layout_.groups, KvKind::kState, &KvGroup::kind); }

  const KvLayout& layout_;
  const MemoryWishes& wishes_;
};

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr double kKib = 1024, kMib = kKib * 1024, kGib = kMib * 1024;
  const auto value = static_cast<double>(bytes);
  if (value >= kGib) return fmt::format("{:.1f} GiB", value / kGib);
  if (value >= kMib) return fmt::format("{:.1f} MiB", value / kMib);
  return fmt::format("{:.1f} KiB", value / kKib);
}

std::string MemoryPlan::text() const {
  if (kv_pages.empty()) {
    return fmt::format("weights {}, scratch {}; {} available", bytes_text(weight_bytes), bytes_text(scratch_bytes),
                       bytes_text(available_bytes));
  }
  return fmt::format("weights {}, KV cache {} ({} tokens), scratch {}; {} available", bytes_text(weight_bytes),
                     bytes_text(kv_bytes), kv_tokens, bytes_text(scratch_bytes), bytes_text(available_bytes));
}

Result<MemoryPlan> plan_memory(const ModelMemoryPlan& model, const MemoryWishes& wishes, int64_t available_bytes) {
  const Divider divider(model.kv_layout, wishes);
  const int64_t fixed = model.weight_bytes + model.scratch_bytes + kReservedBytes;
  const int64_t left = std::max<int64_t>(0, available_bytes - fixed);
  const int64_t context_wanted = model.context_tokens;
  // Asked for: all of it. Not asked for: what fits, but never a context too short to be of use.
  const int64_t context_least =
      wishes.context_tokens != 0 ? context_wanted : std::min<int64_t>(kContextTokensMin, context_wanted);
  const int64_t pages_wanted = std::min(kPagesMax, int64_t{pages_for(context_wanted)} * std::max(1, wishes.sequences));

  const int64_t budget = wishes.kv_bytes != 0 ? wishes.kv_bytes : left;
  // A budget that was asked for is filled, if pages take any memory.
  const bool fill = wishes.kv_bytes != 0 && model.kv_layout.token_bytes() > 0;
  int64_t pages = divider.largest(budget, fill ? kPagesMax : pages_wanted);
  if (wishes.kv_bytes != 0 && pages < 1) {
    return fail(Code::kInvalidArgument, "a KV cache of {} holds no page: one takes {}; raise --kv-bytes",
                bytes_text(wishes.kv_bytes), bytes_text(divider.divide(1, 0).bytes));
  }
  if (wishes.kv_bytes == 0) pages = std::max<int64_t>(pages, pages_for(context_least));
  const Division division = divider.divide(pages, budget);
  if (division.bytes > left) {
    return fail(Code::kOutOfMemory,
                "not enough memory: weights {} + scratch {} + KV cache {} ({} tokens) + {} kept free = {} needed, {} "
                "available; "
                "use a smaller model or quantisation, a shorter --ctx or a smaller --kv-bytes",
                bytes_text(model.weight_bytes), bytes_text(model.scratch_bytes), bytes_text(division.bytes),
                pages * kPageTokens, bytes_text(kReservedBytes), bytes_text(fixed + division.bytes),
                bytes_text(available_bytes));
  }
  MemoryPlan plan;
  plan.weight_bytes = model.weight_bytes;
  plan.weights_in_place = model.weights_in_place;
  plan.scratch_bytes = model.scratch_bytes;
  plan.available_bytes = available_bytes;
  plan.kv_pages = division.kv_pages;
  plan.kv_bytes = division.bytes;
  plan.kv_tokens = pages * kPageTokens;
  plan.context_tokens = static_cast<int32_t>(std::min(context_wanted, plan.kv_tokens));
  return plan;
}

}  // namespace cairn
