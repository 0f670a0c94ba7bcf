// `cairn perplexity`: measures how well a model predicts a text, and how far its predictions are from another model's.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "base/text/text_file.h"
#include "cache/page_pool.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"
#include "model/embedder.h"
#include "model/model.h"
#include "output.h"
#include "perplexity/statistics.h"
#include "perplexity/windows.h"
#include "progress_line.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr int32_t kWindowTokensDefault = 512;
constexpr size_t kTextBytesMax = 1 << 30;  // of one file

struct PerplexityFlags {
  LoadFlags load;
  std::vector<std::string> texts;
  int32_t context = 0;  // 0: that of --against, or else the default
  int32_t stride = 0;
  int32_t chunks = 0;  // 0: all
  std::string save;
  std::string against;
  bool json = false;
};

// The computation, determined before the model is loaded.
struct Job {
  perplexity::Windows windows;
  int32_t count = 0;  // number of windows
  std::vector<TokenId> tokens;
  std::optional<perplexity::LogitsFile> against;
};

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

Result<std::string> read_texts(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    CAIRN_TRY(const std::string part, name == "-" ? read_standard_input("the text", kTextBytesMax)
                                                  : read_text_file(name, "the text", kTextBytesMax));
    text += part;
  }
  return text;
}

Result<std::vector<TokenId>> text_tokens(const PerplexityFlags& flags, const tokenizer::Tokenizer& tokenizer) {
  CAIRN_TRY(const std::string text, read_texts(flags.texts));
  CAIRN_TRY(std::vector<TokenId> tokens, tokenizer.encode(text, {.add_special = true}));
  // Without its end token, since windows treat the text as continuing.
  if (tokenizer.special().add_eos && !tokens.empty()) tokens.pop_back();
  return tokens;
}

// Takes the windows from a file of log-probabilities, which also contains the text's tokens.
Result<void> take_windows_of(const perplexity::LogitsFile& file, const PerplexityFlags& flags, int64_t vocabulary,
                             Job& job) {
  const perplexity::LogitsShape& shape = file.shape();
  if (shape.vocabulary != vocabulary) {
    return fail_at(flags.against, Code::kInvalidArgument,
                   "the log-probabilities are of a vocabulary of {} tokens, the model has {}: another tokenizer",
                   shape.vocabulary, vocabulary);
  }
  if (flags.context != 0 && flags.context != shape.window_tokens) {
    return fail_at(flags.against, Code::kInvalidArgument, "the windows have {} tokens; leave out --ctx-size {}",
                   shape.window_tokens, flags.context);
  }
  for (size_t i = 0; i < job.tokens.size() && i < file.tokens().size(); ++i) {
    if (job.tokens[i] == file.tokens()[i]) continue;
    return fail_at(
        flags.against, Code::kInvalidArgument,
        "the log-probabilities are of another text: its token {} is {}, here it is {}. Give the same text, or "
        "none: the file has its tokens",
        i, index(file.tokens()[i]), index(job.tokens[i]));
  }
  if (!job.tokens.empty() && job.tokens.size() < file.tokens().size()) {
    return fail_at(flags.against, Code::kInvalidArgument,
                   "the log-probabilities are of a longer text: {} tokens, here there are {}. Give the same text, or "
                   "none: the file has its tokens",
                   file.tokens().size(), job.tokens.size());
  }
  job.windows.tokens = shape.window_tokens;
  job.tokens = file.tokens();
  return {};
}

Result<Job> plan_job(const PerplexityFlags& flags, const tokenizer::Tokenizer& tokenizer) {
  Job job;
  if (!flags.texts.empty()) {
    CAIRN_TRY(job.tokens, text_tokens(flags, tokenizer));
  } else if (flags.against.empty()) {
    return fail(Code::kInvalidArgument, "which text? Name a file, or give - for standard input");
  }
  job.windows.tokens = flags.context == 0 ? kWindowTokensDefault : flags.context;
  job.windows.stride = flags.stride;
  if (tokenizer.special().add_bos) job.windows.first = tokenizer.special().bos;
  if (!flags.against.empty()) {
    CAIRN_TRY(job.against, perplexity::LogitsFile::open(flags.against));
    CAIRN_TRY_VOID(take_windows_of(*job.against, flags, tokenizer.size(), job));
  }
  if (job.windows.stride >= job.windows.tokens) {
    return fail_at("--stride", Code::kInvalidArgument,
                   "a stride of {} leaves gaps between windows of {} tokens; take a smaller one", job.windows.stride,
                   job.windows.tokens);
  }
  job.count = job.windows.of(std::ssize(job.tokens));
  if (job.count == 0) {
    return fail(Code::kInvalidArgument,
                "the text has {} tokens, but one window takes {}: give more text, or a smaller --ctx-size",
                job.tokens.size(), job.windows.tokens);
  }
  if (flags.chunks > 0) job.count = std::min(job.count, flags.chunks);
  return job;
}

// ---- Running ----

struct Outcome {
  std::vector<perplexity::PositionScore> scores;
  std::string backend;
  double seconds = 0;
};

Result<Outcome> run_job(const PerplexityFlags& flags, const gguf::Reader& file, int64_t vocabulary, const Job& job) {
  const perplexity::WindowBatch batch = perplexity::plan_batch(job.windows, vocabulary);
  model::ModelOptions sizes = flags.load.options.model;
  sizes.context_tokens = job.windows.tokens;
  sizes.batch_tokens_max = batch.batch_tokens_max;
  sizes.logits_max = batch.logits_max;
  CAIRN_TRY(const LoadedRunner loaded, flags.load.load_runner(file, sizes, batch.windows));
  model::Runner& runner = *loaded.runner;
  CAIRN_TRY(cache::PagePool pool,
            cache::PagePool::create(loaded.device.memories(), runner.kv_layout(),
                                    perplexity::window_pages(runner.kv_layout(), job.windows, batch.windows)));
  const int32_t wanted = flags.load.options.device.cpu.threads;
  ThreadPool threads(wanted == 0 ? usable_cores() : wanted);

  std::optional<perplexity::LogitsFileWriter> save;
  if (!flags.save.empty()) {
    const perplexity::LogitsShape shape{job.windows.tokens, static_cast<int32_t>(runner.vocabulary()), job.count};
    const auto tokens = std::span(job.tokens).first(static_cast<size_t>(job.count) * job.windows.tokens);
    CAIRN_TRY(save, perplexity::LogitsFileWriter::create(flags.save, shape, tokens));
  }
  const auto begin = steady_clock::now();
  ProgressLine line;
  const auto show = [&](const perplexity::WindowProgress& now) {
    const double left = seconds_since(begin) * (now.windows - now.windows_done) / now.windows_done;
    const auto minutes = static_cast<int64_t>(left) / 60;
    line.show(fmt::format("{}/{} windows, perplexity {:.4f}, {}:{:02} left", now.windows_done, now.windows,
                          now.perplexity, minutes, static_cast<int64_t>(left) % 60));
  };
  Outcome outcome;
  CAIRN_TRY(outcome.scores, perplexity::score_windows(runner, pool, threads, job.tokens,
                                                      {.windows = job.windows,
                                                       .windows_max = job.count,
                                                       .at_once = batch.windows,
                                                       .against = job.against.has_value() ? &*job.against : nullptr,
                                                       .save = save.has_value() ? &*save : nullptr,
                                                       .progress = show}));
  if (save.has_value()) CAIRN_TRY_VOID(save->finish());
  outcome.seconds = seconds_since(begin);
  outcome.backend = loaded.device.text();
  return outcome;
}

// ---- Printing ----

// A number in JSON; null if it is not finite.
ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

void put(ordered_json& json, const std::string& name, const perplexity::Estimate& estimate) {
  json[name] = number(estimate.value);
  json[name + "_error"] = number(estimate.error);
}

void print_json(const PerplexityFlags& flags, const Job& job, const Outcome& outcome) {
  ordered_json json{{"model", flags.load.model},
                    {"backend", outcome.backend},
                    {"kv_type", kv_type_name(flags.load.options.model.kv_type)},
                    {"window_tokens", job.windows.tokens},
                    {"stride", job.windows.stride},
                    {"windows", job.count},
                    {"positions", outcome.scores.size()},
                    {"seconds", outcome.seconds},
                    {"tokens_per_s", job.count * static_cast<double>(job.windows.tokens) / outcome.seconds}};
  put(json, "perplexity", perplexity::perplexity_of(outcome.scores));
  if (job.against.has_value()) {
    const perplexity::ModelComparison compared = perplexity::compare_models(outcome.scores);
    json["against"] = flags.against;
    put(json, "base_perplexity", compared.base_perplexity);
    put(json, "perplexity_ratio", compared.perplexity_ratio);
    put(json, "log_perplexity_ratio", compared.log_perplexity_ratio);
    json["correlation"] = number(compared.correlation);
    put(json, "kl_mean", compared.divergence);
    json["kl_median"] = number(compared.divergence_median);
    json["kl_p90"] = number(compared.divergence_p90);
    json["kl_p95"] = number(compared.divergence_p95);
    json["kl_p99"] = number(compared.divergence_p99);
    json["kl_max"] = number(compared.divergence_largest);
    put(json, "same_first", compared.same_first);
    put(json, "probability_change", compared.probability_change);
    put(json, "probability_change_rms", compared.probability_change_rms);
  }
  print("{}\n", json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

void print_comparison(const perplexity::ModelComparison& compared) {
  const auto line = [](const char* name, const perplexity::Estimate& estimate) {
    print("{:<34} {:>11.6f} ± {:.6f}\n", name, estimate.value, estimate.error);
  };
  const auto percent = [](const char* name, const perplexity::Estimate& estimate) {
    print("{:<34} {:>9.3f} % ± {:.3f} %\n", name, 100 * estimate.value, 100 * estimate.error);
  };
  line("perplexity of the base", compared.base_perplexity);
  line("ratio of the perplexities", compared.perplexity_ratio);
  line("its natural logarithm", compared.log_perplexity_ratio);
  print("{:<34} {:>9.3f} %\n", "correlation of log-probabilities", 100 * compared.correlation);
  line("KL divergence, mean", compared.divergence);
  print("{:<34} median {:.6f}, 90 % {:.6f}, 95 % {:.6f}, 99 % {:.6f}, largest {:.6f}\n", "", compared.divergence_median,
        compared.divergence_p90, compared.divergence_p95, compared.divergence_p99, compared.divergence_largest);
  percent("same most likely token", compared.same_first);
  percent("probability of the text, change", compared.probability_change);
  percent("root of its mean square", compared.probability_change_rms);
}

void print_as_text(const Job& job, const Outcome& outcome) {
  print("{} windows of {} tokens, {} positions counted, {:.1f} s, {:.1f} tokens/s, on {}\n", job.count,
        job.windows.tokens, outcome.scores.size(), outcome.seconds,
        job.count * static_cast<double>(job.windows.tokens) / outcome.seconds, outcome.backend);
  const perplexity::Estimate perplexity = perplexity::perplexity_of(outcome.scores);
  print("{:<34} {:>11.6f} ± {:.6f}\n", "perplexity", perplexity.value, perplexity.error);
  if (job.against.has_value()) print_comparison(perplexity::compare_models(outcome.scores));
}

Result<void> run_perplexity(PerplexityFlags& flags) {
  CAIRN_TRY(flags.load, flags.load.found());
  CAIRN_TRY(const gguf::Reader file, flags.load.open_file());
  if (model::is_encoder(file)) {
    return fail_at(flags.load.model, Code::kUnsupported,
                   "the model is an encoder, which predicts no text and so has no perplexity");
  }
  CAIRN_TRY(const auto tokenizer, tokenizer::Tokenizer::load(file.metadata()));
  CAIRN_TRY(const Job job, plan_job(flags, *tokenizer));
  CAIRN_TRY(const Outcome outcome, run_job(flags, file, tokenizer->size(), job));
  if (flags.json) {
    print_json(flags, job, outcome);
  } else {
    print_as_text(job, outcome);
  }
  return {};
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App* command = app.add_subcommand(
      "perplexity", "Measure how well a model predicts a text, and how far its predictions are from another model's");
  set_help(*command, "cairn perplexity qwen3-4b.gguf wiki.test.raw",
           {"--help", "--ctx-size", "--stride", "--chunks", "--save-logits", "--against", "--json", "--kv-type",
            "--gpu-layers", "--threads"});
  command->add_option("MODEL", flags->load.model, kModelHelp)->required();
  command->add_option("TEXT", flags->texts,
                      "Text files, which are joined; - for standard input. Not needed with --against");
  command->add_option("-c,--ctx-size", flags->context, "Tokens per window (default: 512, or those of --against)")
      ->check(whole_number(perplexity::kWindowTokensMin, perplexity::kWindowTokensMax));
  auto* stride =
      command->add_option("--stride", flags->stride,
                          "Tokens from the beginning of one window to that of the next; as many at the end of each are "
                          "scored; 0: windows do not overlap, and the second half of each is scored");
  stride->check(whole_number(0, perplexity::kWindowTokensMax))->capture_default_str();
  command->add_option("--chunks", flags->chunks, "Use only the first windows, this many; 0: all")
      ->check(whole_number(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  auto* save = command->add_option("--save-logits", flags->save,
                                   "Write the log-probabilities of the whole vocabulary to this file, 2 bytes each, in "
                                   "the format of llama-perplexity --kl-divergence-base (default: none)");
  save->type_name("FILE");
  auto* against = command->add_option("--against", flags->against,
                                      "Compare with the log-probabilities in such a file: Kullback-Leibler divergence "
                                      "and others (default: none)");
  against->type_name("FILE");
  save->excludes(stride);
  against->excludes(stride);
  command->add_flag("--json", flags->json, "Print JSON, for programs");
  flags->load.add_runner_flags(*command);
  command->callback([flags, &exit_code] {
    if (const auto done = run_perplexity(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
