// `cairn imatrix`: reads a text with a model, and writes how large the inputs of its weights were.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/system/new_file.h"
#include "base/text/printable.h"
#include "cache/page_pool.h"
#include "calibrate/fit.h"
#include "calibrate/importance_collector.h"
#include "calibrate/reading.h"
#include "calibration.h"
#include "commands.h"
#include "convert/importance.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "kernels/cpu/cpu_backend.h"
#include "load_flags.h"
#include "model/embedder.h"
#include "output.h"
#include "progress_line.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

using std::chrono::steady_clock;

constexpr size_t kNamesMax = 8;  // of tensors that are listed

struct ImatrixFlags {
  LoadFlags load;
  std::vector<std::string> texts;
  std::string out;
  int32_t context = 512;
  int32_t chunks = 0;  // 0: all
  bool output = false;
  std::vector<std::string> from;
};

Result<convert::ImportanceMatrix> read_with_decoder(const ImatrixFlags& flags, const gguf::Reader& file,
                                                    int64_t vocabulary, const CalibrationText& text) {
  calibrate::ImportanceCollector collector;
  const perplexity::WindowBatch batch = calibrate::plan_reading(text.reading.windows, flags.output, vocabulary);
  model::ModelOptions sizes = flags.load.options.model;
  sizes.context_tokens = text.reading.windows.tokens;
  sizes.batch_tokens_max = batch.batch_tokens_max;
  sizes.logits_max = batch.logits_max;
  sizes.weight_names = &collector.names();
  CAIRN_TRY(const LoadedRunner loaded, flags.load.load_runner(file, sizes, batch.windows, &collector));
  model::Runner& runner = *loaded.runner;
  CAIRN_TRY(cache::PagePool pool,
            cache::PagePool::create(loaded.device.memories(), runner.kv_layout(),
                                    perplexity::window_pages(runner.kv_layout(), text.reading.windows, batch.windows)));
  CAIRN_TRY_VOID(calibrate::read_windows(runner, pool, text.tokens, batch.windows, text.reading));
  return collector.matrix(file);
}

// "A, B and 3 more".
std::string listed_names(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) list += (i == 0 ? "" : ", ") + printable(names[i]);
  if (names.size() > kNamesMax) list += fmt::format(" and {} more", names.size() - kNamesMax);
  return list;
}

void print_result(const ImatrixFlags& flags, const convert::ImportanceMatrix& matrix, double seconds) {
  std::vector<std::string> unreached;
  for (const auto& [name, entry] : matrix.entries) {
    const auto missing = std::ranges::count(entry.counts, 0.0F);
    if (missing > 0) unreached.push_back(fmt::format("{} ({} of {})", name, missing, entry.counts.size()));
  }
  print("{}: {} tensors, {} chunks of {} tokens, {:.1f} s\n", flags.out, matrix.entries.size(), matrix.chunks,
        matrix.chunk_tokens, seconds);
  if (unreached.empty()) return;
  print(
      "No token reached some experts, for which cairn quantize will take the mean of the others: {}. More text may "
      "reach them\n",
      listed_names(unreached));
}

Result<void> run_imatrix(ImatrixFlags& flags) {
  CAIRN_TRY(flags.load, flags.load.found());
  CAIRN_TRY(const gguf::Reader file, flags.load.open_file());
  CAIRN_TRY_VOID(check_file_may_be_made(flags.out));
  std::vector<convert::ImportanceMatrix> older;
  for (const std::string& name : flags.from) {
    CAIRN_TRY(older.emplace_back(), convert::ImportanceMatrix::open(name));
  }
  CAIRN_TRY(const auto tokenizer, tokenizer::Tokenizer::load(file.metadata()));
  CAIRN_TRY(CalibrationText text, read_calibration(flags.texts, *tokenizer, flags.context));
  text.reading.logits = flags.output;
  if (flags.chunks > 0) text.reading.count = std::min(text.reading.count, flags.chunks);
  const auto begin = steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(steady_clock::now() - begin).count(); };
  convert::ImportanceMatrix matrix;
  {
    ProgressLine line;
    text.reading.progress = [&](int32_t done) {
      const auto left = static_cast<int64_t>(seconds() * (text.reading.count - done) / done);
      line.show(fmt::format("{}/{} windows, {}:{:02} left", done, text.reading.count, left / 60, left % 60));
    };
    if (model::is_encoder(file)) {
      CAIRN_TRY(std::shared_ptr<kernels::Backend> cpu, kernels::make_cpu_backend(flags.load.options.device.cpu));
      CAIRN_TRY(matrix, calibrate::collect_importance(file, std::move(cpu), text.tokens, text.reading));
    } else {
      CAIRN_TRY(matrix, read_with_decoder(flags, file, tokenizer->size(), text));
    }
  }
  matrix.datasets = text.names;
  matrix.chunks = text.reading.count;
  matrix.chunk_tokens = text.reading.windows.tokens;
  for (const convert::ImportanceMatrix& each : older) CAIRN_TRY_VOID(matrix.add(each));
  CAIRN_TRY_VOID(matrix.write(flags.out));
  print_result(flags, matrix, seconds());
  return {};
}

}  // namespace

void add_imatrix(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ImatrixFlags>();
  CLI::App* command = app.add_subcommand(
      "imatrix", "Measure which columns of a model's weights matter on a text, for quantize --imatrix");
  set_help(*command, "cairn imatrix qwen3-4b-f16.gguf -o qwen3-4b.imatrix.gguf",
           {"--help", "--output", "--ctx-size", "--chunks", "--process-output", "--from", "--gpu-layers", "--threads"});
  command->add_option("MODEL", flags->load.model, kModelHelp)->required();
  command->add_option("TEXT", flags->texts,
                      "Text files, which are joined; - for standard input (default: a text that comes with Cairn)");
  command->add_option("-o,--output", flags->out, "File to write; it appears when it is complete")
      ->required()
      ->type_name("FILE");
  command->add_option("-c,--ctx-size", flags->context, "Tokens per window")
      ->check(whole_number(1, perplexity::kWindowTokensMax))
      ->capture_default_str();
  command->add_option("--chunks", flags->chunks, "Use only the first windows, this many; 0: all")
      ->check(whole_number(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  command->add_flag("--process-output", flags->output,
                    "Measure the output matrix, too, which is rarely better for it and takes longer");
  command
      ->add_option("--from", flags->from,
                   "Add what an earlier importance matrix of the model has, of either format; repeatable (default: "
                   "none)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  flags->load.add_runner_flags(*command);
  command->callback([flags, &exit_code] {
    if (const auto done = run_imatrix(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
