#include "loader/memory_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/system/machine.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "kernels/backend.h"

namespace cairn::loader {
namespace {

/// Far above any machine, far below where sums of pages or their tokens overflow.
constexpr int64_t kPagesMax = 1 << 26;
constexpr int64_t kBytesMax = int64_t{1} << 60;

/// Pages of every group when sequences together may have `pages` pages of positions, and what they take.
struct Division {
  std::vector<int32_t> kv_pages;
  int64_t bytes = 0;
  int64_t index_bytes = 0;
};

class Divider {
 public:
  Divider(const cache::KvLayout& layout, const MemoryRequest& request)
      : layout_(layout), request_(request), sequences_(std::max(1, request.sequences_running)) {
    for (const cache::KvGroup& group : layout.groups) {
      const auto bytes = static_cast<double>(layout.page_bytes(group));
      if (group.kind == cache::KvKind::kWindow) window_page_bytes_ += bytes;
      if (group.kind != cache::KvKind::kWindow && group.kind != cache::KvKind::kState) full_page_bytes_ += bytes;
    }
  }

  /// Gives as many sequences room for their windows as leave enough for `pages_least` pages, and for other things than
  /// windows when there are `pages_wanted`.
  void limit_windows(int64_t pages_least, int64_t pages_wanted, int64_t budget) {
    keeps_ = false;
    for (; sequences_ > 1; --sequences_) {
      if (window_bytes(pages_wanted) > static_cast<double>(budget / kWindowShare)) continue;
      if (needed(divide(pages_least, budget)) <= budget) break;
    }
    keeps_ = true;
  }
  /// Nothing is kept of windows that were left behind.
  void keep_no_windows() { keeps_ = false; }
  int32_t window_sequences() const { return window_page_bytes_ > 0 ? sequences_ : 0; }

  /// `budget` bounds the state slots, and nothing else.
  Division divide(int64_t pages, int64_t budget) const {
    Division division;
    for (const cache::KvGroup& group : layout_.groups) {
      const int64_t page_bytes = layout_.page_bytes(group);
      int64_t wanted = pages;
      if (group.kind == cache::KvKind::kWindow) wanted = window_pages(group, pages);
      if (group.kind == cache::KvKind::kState) wanted = state_slots(page_bytes, budget);
      division.kv_pages.push_back(static_cast<int32_t>(wanted));
      int64_t bytes = 0;
      if (__builtin_mul_overflow(wanted, page_bytes, &bytes) ||
          __builtin_add_overflow(division.bytes, bytes, &division.bytes)) {
        return {{}, kBytesMax, 0};
      }
    }
    division.bytes = std::min(division.bytes, kBytesMax);
    if (!layout_.groups.empty()) {
      division.index_bytes =
          cache::PrefixCache::bytes(layout_, division.kv_pages, request_.kv_host_bytes, request_.kv_disk) +
          cache::PagePool::list_bytes(division.kv_pages);
    }
    return division;
  }
  /// The most pages of at most `pages_max` whose division fits the budget; 0 if one page does not.
  int64_t largest(int64_t budget, int64_t pages_max) const {
    int64_t fits = 0;
    for (int64_t beyond = pages_max + 1; beyond - fits > 1;) {
      const int64_t pages = fits + (beyond - fits) / 2;
      (needed(divide(pages, budget)) <= budget ? fits : beyond) = pages;
    }
    return fits;
  }

 private:
  /// Bytes of the budget that a division takes. A budget that the user set (--kv-bytes) is for pages alone, so that the
  /// index does not count.
  int64_t needed(const Division& division) const {
    return division.bytes + (request_.kv_bytes == 0 ? division.index_bytes : 0);
  }
  int64_t window_pages(const cache::KvGroup& group, int64_t pages) const {
    const int64_t of_sequence = int64_t{cache::pages_for(group.window)} + kWindowPagesExtra;
    return std::min(pages, of_sequence * sequences_ + cache::pages_for(request_.step_rows) + window_pages_kept(pages));
  }
  int64_t window_pages_kept(int64_t pages) const {
    if (!keeps_) return 0;
    const int64_t kept = pages / kWindowPagesKept;
    if (full_page_bytes_ == 0) return kept;
    const double share = static_cast<double>(pages) * full_page_bytes_ / (kKeptShare * window_page_bytes_);
    return std::min(kept, static_cast<int64_t>(share));
  }
  double window_bytes(int64_t pages) const {
    double bytes = 0;
    for (const cache::KvGroup& group : layout_.groups) {
      if (group.kind != cache::KvKind::kWindow) continue;
      bytes += static_cast<double>(window_pages(group, pages)) * static_cast<double>(layout_.page_bytes(group));
    }
    return bytes;
  }
  int64_t state_slots(int64_t slot_bytes, int64_t budget) const {
    const int64_t wanted = int64_t{std::max(1, request_.sequences_running)} * (1 + kCheckpointsPerSequence);
    const int64_t parts = state_groups() * (layout_.token_bytes() > 0 ? kStateShare : 1);
    const int64_t share = slot_bytes == 0 ? wanted : budget / parts / slot_bytes;
    return std::clamp<int64_t>(share, kStateSlotsMin, std::max<int64_t>(wanted, kStateSlotsMin));
  }
  int64_t state_groups() const {
    return std::ranges::count(layout_.groups, cache::KvKind::kState, &cache::KvGroup::kind);
  }

  const cache::KvLayout& layout_;
  const MemoryRequest& request_;
  int32_t sequences_;  // that have windows at the same time
  bool keeps_ = true;
  double full_page_bytes_ = 0;  // of all groups of the kind together
  double window_page_bytes_ = 0;
};

/// Plans one stage: what it takes, and the layout of its device's groups.
Result<StagePlan> plan_stage(const model::StageMemory& memory, const cache::KvLayout& kv_layout, int64_t context_wanted,
                             const MemoryRequest& request, int64_t available_bytes) {
  Divider divider(kv_layout, request);
  const int64_t fixed = memory.weight_bytes + memory.scratch_bytes + kReservedBytes;
  const int64_t left = std::max<int64_t>(0, available_bytes - fixed);
  // Asked for: all of it. Not asked for: what fits, but never a context too short to be of use.
  const int64_t context_least =
      request.context_tokens != 0 ? context_wanted : std::min<int64_t>(kContextTokensMin, context_wanted);
  const int64_t pages_max = request.kv_tokens_max != 0 ? request.kv_tokens_max / kernels::kPageTokens : kPagesMax;
  const int64_t pages_wanted =
      std::min(pages_max, int64_t{cache::pages_for(context_wanted)} * std::max(1, request.sequences));
  const int64_t pages_least = request.kv_bytes != 0 ? 1 : cache::pages_for(context_least);

  const int64_t budget = request.kv_bytes != 0 ? request.kv_bytes : left;
  // A budget that was asked for is filled, if pages take any memory.
  const bool fill = request.kv_bytes != 0 && kv_layout.token_bytes() > 0;
  divider.limit_windows(pages_least, pages_wanted, budget);
  int64_t pages = divider.largest(budget, fill ? pages_max : pages_wanted);
  if (request.kv_bytes != 0 && pages < 1) {
    return fail(Code::kInvalidArgument, "a KV cache of {} holds no page: one takes {}; raise --kv-bytes",
                bytes_text(request.kv_bytes), bytes_text(divider.divide(1, 0).bytes));
  }
  if (pages < pages_least) {
    divider.keep_no_windows();
    pages = pages_least;
  }
  const Division division = divider.divide(pages, budget);
  const int64_t needed = fixed + division.bytes + division.index_bytes;
  if (needed > available_bytes) {
    return fail(
        Code::kOutOfMemory,
        "not enough memory: weights {} + scratch {} + KV cache {} ({} tokens) and its index {} + {} kept free = "
        "{} needed, {} available; use a smaller model or quantisation, a shorter --ctx or a smaller --kv-bytes",
        bytes_text(memory.weight_bytes), bytes_text(memory.scratch_bytes), bytes_text(division.bytes),
        pages * kernels::kPageTokens, bytes_text(division.index_bytes), bytes_text(kReservedBytes), bytes_text(needed),
        bytes_text(available_bytes));
  }
  StagePlan plan;
  static_cast<model::StageMemory&>(plan) = memory;
  plan.kv_pages = division.kv_pages;
  plan.kv_tokens = pages * kernels::kPageTokens;
  plan.window_sequences = divider.window_sequences();
  plan.kv_bytes = division.bytes;
  plan.index_bytes = division.index_bytes;
  plan.available_bytes = available_bytes;
  return plan;
}

cache::KvLayout layout_of_stage(const cache::KvLayout& layout, int32_t stage) {
  cache::KvLayout own = layout;
  std::erase_if(own.groups, [&](const cache::KvGroup& group) { return group.device != stage; });
  return own;
}

/// Shares of kv_bytes add up to what was asked for.
MemoryRequest request_of_stage(const MemoryRequest& request, const cache::KvLayout& layout, int32_t stage) {
  MemoryRequest own = request;
  const int64_t all = layout.token_bytes();
  if (request.kv_bytes == 0 || all == 0) return own;
  int64_t before = 0;
  for (int32_t i = 0; i < stage; ++i) before += layout.token_bytes(i);
  const auto share_up_to = [&](int64_t token_bytes) {
    return static_cast<int64_t>(static_cast<double>(token_bytes) / static_cast<double>(all) *
                                static_cast<double>(request.kv_bytes));
  };
  own.kv_bytes = share_up_to(before + layout.token_bytes(stage)) - share_up_to(before);
  return own;
}

Result<std::vector<StagePlan>> plan_stages(const model::ModelMemory& model, const MemoryRequest& request,
                                           std::span<const StageDevice> devices) {
  std::vector<StagePlan> stages;
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    auto planned = plan_stage(model.stages[i], layout_of_stage(model.kv_layout, stage), model.context_tokens,
                              request_of_stage(request, model.kv_layout, stage), devices[i].available_bytes);
    if (!planned) {
      if (devices.size() > 1) {
        planned.error().message = fmt::format("of the layers on {}: {}", devices[i].name, planned.error().message);
      }
      return std::unexpected(std::move(planned).error());
    }
    stages.push_back(*std::move(planned));
  }
  return stages;
}

}  // namespace

std::string StagePlan::text() const {
  const std::string tables =
      file_table_bytes > 0 ? fmt::format(", tables {} read from the file by row", bytes_text(file_table_bytes)) : "";
  if (kv_pages.empty()) {
    return fmt::format("weights {}{}, scratch {}; {} available", bytes_text(weight_bytes), tables,
                       bytes_text(scratch_bytes), bytes_text(available_bytes));
  }
  std::string windows;
  if (window_sequences > 0) windows = fmt::format(", windows of {} sequences", window_sequences);
  return fmt::format("weights {}{}, KV cache {} ({} tokens{}), its index {}, scratch {}; {} available",
                     bytes_text(weight_bytes), tables, bytes_text(kv_bytes), kv_tokens, windows,
                     bytes_text(index_bytes), bytes_text(scratch_bytes), bytes_text(available_bytes));
}

int64_t MemoryPlan::bytes() const {
  int64_t bytes = 0;
  for (const StagePlan& stage : stages) bytes += stage.bytes();
  return bytes;
}

bool MemoryPlan::weights_in_place() const { return std::ranges::any_of(stages, &StagePlan::weights_in_place); }

Result<MemoryPlan> plan_memory(const model::ModelMemory& model, const MemoryRequest& request,
                               std::span<const StageDevice> devices) {
  CAIRN_CHECK(!devices.empty() && devices.size() == model.stages.size());
  MemoryPlan plan;
  CAIRN_TRY(plan.stages, plan_stages(model, request, devices));
  const auto [least, most] = std::ranges::minmax(plan.stages, {}, &StagePlan::kv_tokens);
  plan.kv_tokens = least.kv_tokens;
  if (most.kv_tokens > plan.kv_tokens) {
    // What one of them could hold beyond the others is of no use.
    MemoryRequest fewer = request;
    fewer.kv_tokens_max = plan.kv_tokens;
    CAIRN_TRY(plan.stages, plan_stages(model, fewer, devices));
    plan.kv_tokens = std::ranges::min(plan.stages, {}, &StagePlan::kv_tokens).kv_tokens;
  }
  plan.context_tokens = static_cast<int32_t>(std::min<int64_t>(model.context_tokens, plan.kv_tokens));
  plan.whole_context = plan.context_tokens == model.context_tokens;
  std::vector<size_t> next(devices.size(), 0);
  for (const cache::KvGroup& group : model.kv_layout.groups) {
    const auto stage = static_cast<size_t>(group.device);
    plan.kv_pages.push_back(plan.stages[stage].kv_pages[next[stage]++]);
  }
  return plan;
}

Result<MemoryPlan> plan_memory(const model::ModelMemory& model, const MemoryRequest& request, int64_t available_bytes) {
  const StageDevice device{available_bytes, ""};
  return plan_memory(model, request, {&device, 1});
}

int64_t bounded_host_bytes(int64_t available_bytes, int64_t host_bytes_max) {
  return host_bytes_max > available_bytes - kReservedBytes ? available_bytes : host_bytes_max + kReservedBytes;
}

Result<MemoryPlan> plan_device_memory(const gguf::Reader& file, const Device& device,
                                      const model::ModelOptions& options, const MemoryRequest& request,
                                      int64_t own_taken) {
  CAIRN_TRY(const model::ModelMemory model, model::model_memory(file, device.stages(), options));
  const int64_t tiers = request.kv_host_bytes + (request.kv_disk ? cache::disk::DiskTier::memory_bytes() : 0);
  const int64_t there = device.backend().available_bytes();
  const int64_t available =
      (device.on_gpu() ? there : bounded_host_bytes(there + request.host_bytes_freed, request.host_bytes_max)) -
      own_taken;
  if (!device.on_gpu()) return plan_memory(model, request, available - tiers);
  const int64_t host = bounded_host_bytes(available_memory_bytes() + request.host_bytes_freed, request.host_bytes_max);
  if (request.kv_host_bytes > host) {
    return fail(Code::kOutOfMemory, "{} for what the KV cache gives up, but {} are available; lower --kv-host-bytes",
                bytes_text(request.kv_host_bytes), bytes_text(host));
  }
  std::vector<StageDevice> devices;
  for (const DevicePart& part : device.parts) {
    devices.push_back({part.gpu ? part.backend->available_bytes() : host - tiers, part.backend->description()});
  }
  devices.back().available_bytes = available;
  return plan_memory(model, request, devices);
}

}  // namespace cairn::loader
