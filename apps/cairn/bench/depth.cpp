#include "bench/depth.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/log.h"
#include "bench/long_sequence.h"
#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/backend.h"
#include "output.h"

namespace cairn {
namespace {

using std::chrono::steady_clock;

// Tokens of the context that are computed: enough for some compressed rows in every layer.
constexpr int32_t kComputedTokens = 512;
constexpr int32_t kWarmupTokens = 2;

/// Peak resident memory of the process, including the parts of the file that it read.
int64_t peak_resident_bytes() {
  constexpr int64_t kUnit = 1024;
  struct rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss * kUnit : 0;
}

/// Fills exactly `depth` tokens of context: the first ones, and at the end those that do not fill a page, are computed;
/// the pages between are copied. Returns the number of computed tokens.
Result<int32_t> fill(bench::LongSequence& sequence, int32_t depth) {
  CAIRN_TRY(const int32_t first, sequence.compute_to(std::min(depth, kComputedTokens)));
  while (depth - sequence.position() >= kernels::kPageTokens) {
    CAIRN_TRY_VOID(sequence.copy_page(kComputedTokens / kernels::kPageTokens));
  }
  CAIRN_TRY(const int32_t last, sequence.compute_to(depth));
  return first + last;
}

Result<void> check_layout(const cache::KvLayout& layout) {
  const bool states = std::ranges::any_of(
      layout.groups, [](const cache::KvGroup& group) { return group.kind == cache::KvKind::kState; });
  if (!states) return {};
  return fail(Code::kUnsupported, "--depth is not for models with recurrent layers, whose state cannot be made up");
}

/// Bytes of all devices.
nlohmann::ordered_json planned_bytes(const loader::MemoryPlan& plan) {
  int64_t weights = 0, scratch = 0, kv = 0;
  for (const loader::StagePlan& stage : plan.stages) {
    weights += stage.weight_bytes;
    scratch += stage.scratch_bytes;
    kv += stage.kv_bytes;
  }
  return {{"weights", weights}, {"scratch", scratch}, {"kv", kv}, {"all", plan.bytes()}};
}

}  // namespace

Result<void> bench_depth(const LoadFlags& flags, int32_t depth, int32_t answer) {
  const loader::LoadOptions& wanted = flags.options;
  if (!wanted.draft_model.empty() || wanted.engine.speculation.tokens_max > 0 || wanted.kv_bytes > 0 ||
      wanted.model.context_tokens > 0) {
    return fail(
        Code::kInvalidArgument,
        "--depth says how much context there is and runs without an engine: leave out --ctx, --kv-bytes, --draft "
        "and --speculate");
  }
  CAIRN_TRY(const gguf::Reader file, flags.open_file());
  model::ModelOptions sizes = wanted.model;
  sizes.context_tokens = depth + kWarmupTokens + answer;
  CAIRN_TRY(const LoadedRunner loaded, flags.load_runner(file, sizes, 1));
  const auto& [device, plan, pack_cache, runner] = loaded;
  log_info("memory: {}", plan.stages.back().text());
  CAIRN_TRY_VOID(check_layout(runner->kv_layout()));
  CAIRN_TRY(cache::PagePool pool, cache::PagePool::create(device.memories(), runner->kv_layout(), plan.kv_pages));
  bench::LongSequence sequence(*runner, pool);
  const auto begin = steady_clock::now();
  CAIRN_TRY(const int32_t computed, fill(sequence, depth));
  const auto filled = steady_clock::now();
  log_info("{} tokens of context after {:.1f} s", sequence.position(),
           std::chrono::duration<double>(filled - begin).count());
  for (int32_t i = 0; i < kWarmupTokens; ++i) CAIRN_TRY_VOID(sequence.compute(1));

  std::vector<double> seconds;
  for (int32_t i = 0; i < answer; ++i) {
    const auto start = steady_clock::now();
    CAIRN_TRY_VOID(sequence.compute(1));
    seconds.push_back(std::chrono::duration<double>(steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const nlohmann::ordered_json result{
      {"model", std::filesystem::path(flags.model).stem().string()},
      {"backend", device.text()},
      {"depth_tokens", depth},
      {"computed_tokens", computed},
      {"answer_tokens", answer},
      {"median_ms_per_token", median * 1e3},
      {"decode_tokens_per_s", 1 / median},
      {"planned_bytes", planned_bytes(plan)},
      {"buffer_bytes", kernels::Buffer::bytes_in_all()},
      {"resident_bytes_most", peak_resident_bytes()},
  };
  print("{}\n", result.dump());
  return {};
}

}  // namespace cairn
