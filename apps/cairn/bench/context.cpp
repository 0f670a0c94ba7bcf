// cairn bench context: how fast a model reads and writes as its context grows, without a server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "base/system/new_file.h"
#include "bench/chart.h"
#include "bench/long_sequence.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"
#include "output.h"
#include "progress_line.h"

namespace cairn {
namespace {

using bench::LongSequence;
using std::chrono::steady_clock;

constexpr int32_t kFirstDepth = 512;
// A first reading that is not measured: weights come into memory, and the system commits pages.
constexpr int32_t kContextWarmup = 512;
constexpr int32_t kContextWarmupAnswer = 2;
constexpr const char* kCsvHead =
    "context_tokens,new_tokens,prefill_tokens_per_s,answer_tokens,decode_tokens_per_s,kv_bytes,answer_hash\n";

struct ContextFlags {
  LoadFlags load;
  int32_t to = 0;  ///< 0: the model's context
  int32_t answer = 128;
  std::vector<int32_t> depths;  ///< empty: doubled from kFirstDepth
  std::string csv;
  std::string svg;
};

/// The measurements at one depth.
struct Depth {
  int32_t context = 0;
  int32_t added = 0;
  int32_t answer = 0;
  double prefill_rate = 0;
  double decode_rate = 0;
  int64_t kv_bytes = 0;
  uint64_t answer_hash = 0;  ///< of the greedy tokens, which do not depend on the depths that came before

  std::string csv() const {
    return fmt::format("{},{},{:.2f},{},{:.2f},{},{:016x}\n", context, added, prefill_rate, answer, decode_rate,
                       kv_bytes, answer_hash);
  }
};

Result<std::vector<int32_t>> choose_depths(const ContextFlags& flags, int32_t context) {
  const int32_t most = context - flags.answer;
  const int32_t last = flags.to > 0 ? flags.to : most;
  std::vector<int32_t> depths = flags.depths;
  if (depths.empty()) {
    for (int64_t depth = kFirstDepth; depth < last; depth *= 2) depths.push_back(static_cast<int32_t>(depth));
    depths.push_back(last);
  }
  std::ranges::sort(depths);
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  if (depths.back() <= most && depths.front() > 0) return depths;
  return fail(Code::kContextLengthExceeded,
              "the context has {} tokens, and {} of them are for the answer: it cannot be filled with {}; choose a "
              "smaller --to, or a smaller --answer",
              context, flags.answer, depths.back());
}

Result<Depth> measure(LongSequence& sequence, int32_t context, int32_t answer) {
  Depth depth{.context = context, .answer = answer};
  const auto begin = steady_clock::now();
  CAIRN_TRY(depth.added, sequence.compute_to(context));
  depth.prefill_rate = depth.added / std::chrono::duration<double>(steady_clock::now() - begin).count();
  depth.kv_bytes = sequence.kv_bytes();
  std::vector<TokenId> tokens;
  CAIRN_TRY(const std::vector<double> seconds, sequence.decode(answer, tokens));
  depth.decode_rate = answer / std::accumulate(seconds.begin(), seconds.end(), 0.0);
  depth.answer_hash = hash64(std::as_bytes(std::span(tokens)));
  return depth;
}

std::string chart(const std::string& title, const std::vector<Depth>& depths) {
  std::vector<double> x;
  bench::Curve prefill{"prefill of the new part, tokens/s", {}}, decode{"decode, tokens/s", {}};
  for (const Depth& depth : depths) {
    x.push_back(depth.context);
    prefill.values.push_back(depth.prefill_rate);
    decode.values.push_back(depth.decode_rate);
  }
  return bench::chart_svg(title, "tokens of context", x, prefill, decode);
}

Result<std::optional<NewFile>> begin_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  CAIRN_TRY(NewFile file, NewFile::create(path));
  return std::optional(std::move(file));
}

Result<void> write_file(std::optional<NewFile>& file, const std::string& text) {
  if (!file) return {};
  CAIRN_TRY_VOID(file->write(std::as_bytes(std::span(text))));
  return file->finish();
}

/// Measures each depth, and shows how far it is: the work grows with the tokens that are computed.
Result<std::vector<Depth>> measure_all(model::Runner& runner, cache::PagePool& pool, const std::vector<int32_t>& depths,
                                       const ContextFlags& flags) {
  {
    LongSequence warm(runner, pool);
    CAIRN_TRY_VOID(warm.compute_to(std::min(kContextWarmup, depths.front())));
    std::vector<TokenId> tokens;
    CAIRN_TRY_VOID(warm.decode(std::min(kContextWarmupAnswer, flags.answer), tokens));
  }
  LongSequence sequence(runner, pool);
  ProgressLine line;
  const ProgressClock clock;
  std::vector<Depth> measured;
  for (const int32_t context : depths) {
    line.show(fmt::format("{}  {} tokens of context", clock.text(sequence.position(), depths.back()), context));
    CAIRN_TRY(const Depth depth, measure(sequence, context, flags.answer));
    measured.push_back(depth);
    if (flags.csv.empty()) CAIRN_TRY_VOID(show(depth.csv()));
  }
  return measured;
}

Result<void> bench_context(const ContextFlags& flags) {
  CAIRN_TRY(const LoadFlags load, flags.load.found());
  CAIRN_TRY(const gguf::Reader file, load.open_file());
  // Opened before the run, so that a file that cannot be written is noticed at once.
  CAIRN_TRY(auto csv, begin_file(flags.csv));
  CAIRN_TRY(auto svg, begin_file(flags.svg));
  model::ModelOptions sizes = load.options.model;
  const int32_t deepest = flags.depths.empty() ? flags.to : std::ranges::max(flags.depths);
  if (deepest > 0) sizes.context_tokens = deepest + flags.answer;
  CAIRN_TRY(const LoadedRunner loaded, load.load_runner(file, sizes, 1));
  const auto& [device, plan, pack_cache, runner] = loaded;
  CAIRN_TRY(const std::vector<int32_t> depths, choose_depths(flags, runner->context_tokens()));
  log_info("memory: {}; depths {}", plan.stages.back().text(), fmt::join(depths, ", "));
  CAIRN_TRY(cache::PagePool pool, cache::PagePool::create(device.memories(), runner->kv_layout(), plan.kv_pages));
  if (flags.csv.empty()) print_text(kCsvHead);
  CAIRN_TRY(const std::vector<Depth> measured, measure_all(*runner, pool, depths, flags));
  std::string lines = kCsvHead;
  for (const Depth& depth : measured) lines += depth.csv();
  CAIRN_TRY_VOID(write_file(csv, lines));
  const std::string name = std::filesystem::path(load.model).stem().string();
  return write_file(svg, chart(fmt::format("{} on {}", name, device.text()), measured));
}

}  // namespace

void add_bench_context(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("context",
                                       "Measure how fast a model reads and writes as its context grows: at each depth "
                                       "the tokens that are new, and then an "
                                       "answer, which is taken back. Nothing is computed twice. It prints CSV");
  set_help(*command, "cairn bench context qwen3-4b.gguf --to 32768 --svg context.svg",
           {"--help", "--to", "--depths", "--answer", "--csv", "--svg", "--gpu-layers", "--threads", "--kv-type"});
  auto flags = std::make_shared<ContextFlags>();
  command->add_option("MODEL", flags->load.model, kModelHelp)->required();
  auto* to = command->add_option("--to", flags->to,
                                 "Deepest context in tokens; depths double from 512 up to it (default: what the model "
                                 "was trained for, less the answer)");
  to->check(whole_number(1, 1 << 24));
  command
      ->add_option("--depths", flags->depths, "Depths to measure, in tokens, separated by commas (default: see --to)")
      ->delimiter(',')
      ->check(whole_number(1, 1 << 24))
      ->excludes(to)
      ->type_name("512,4096");
  command->add_option("--answer", flags->answer, "Tokens to decode at each depth, always the most likely one")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--csv", flags->csv, "Write the CSV to this file (default: standard output)")->type_name("FILE");
  command->add_option("--svg", flags->svg, "Write a chart to this file (default: none)")->type_name("FILE");
  flags->load.add_runner_flags(*command);
  command->callback([flags, &exit_code] {
    if (const auto done = bench_context(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
