// cairn bench model: measures how fast a model reads prompts and decodes several sequences at once, without a server.
// For comparison with other engines (bench/peers).
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/depth.h"
#include "commands.h"
#include "engine/output/event_channel.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "kernels/backend.h"
#include "load_flags.h"
#include "loader/catalog/description.h"
#include "output.h"

namespace cairn {
namespace {

using std::chrono::steady_clock;

/// An answer in progress.
struct Sequence {
  std::unique_ptr<engine::GenerateStream> stream;
  int32_t tokens = 0;  ///< Taken so far.
  int32_t enough = 0;  ///< Number of tokens to wait for.
  bool ended = false;

  Result<void> take(const engine::Events& events) {
    tokens += static_cast<int32_t>(events.tokens.size());
    ended |= events.finished;
    if (events.finished && events.finish.reason == engine::FinishReason::kError)
      return std::unexpected(events.finish.error);
    return {};
  }
};
using Sequences = std::vector<Sequence>;

struct ModelBenchFlags {
  LoadFlags load;
  int32_t sequences = 1;
  int32_t prompt = 512;
  int32_t answer = 32;
  int32_t depth = 0;
};

// Maximum tokens of the prompt that is read before the measurement starts, and tokens of its answer.
constexpr int32_t kWarmupPrompt = 512;
constexpr int32_t kWarmupAnswer = 2;
// Additional context: what a sequence decodes before a late reader knows that it has begun. A step may add some tokens
// to those at which it stops.
constexpr int32_t kContextExtra = static_cast<int32_t>(engine::kPendingTokensMax) + 32;
// The same for several sequences: with what one decodes while the others' prompts are read.
constexpr int32_t kContextExtraOfSeveral = kContextExtra + 512;

/// Starts one sequence for each prompt of random tokens, none of which is in the cache.
Result<Sequences> begin_sequences(loader::LoadedModel& model, int32_t sequences, int32_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(model.runner->vocabulary()) - 1);
  Sequences all;
  for (int32_t i = 0; i < sequences; ++i) {
    engine::GenerateRequest request;
    for (int32_t t = 0; t < tokens; ++t) request.prompt.push_back(TokenId{token(random)});
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    CAIRN_TRY(auto stream, model.engine->submit(std::move(request)));
    all.push_back({.stream = std::move(stream)});
  }
  return all;
}

/// Returns when `tokens` more of every sequence have been read; streams are drained in turn, so that none stalls.
Result<void> wait_for_all(Sequences& sequences, int32_t tokens) {
  for (Sequence& sequence : sequences) sequence.enough = sequence.tokens + tokens;
  for (;;) {
    Sequence* behind = nullptr;
    for (Sequence& sequence : sequences) {
      CAIRN_TRY_VOID(sequence.take(sequence.stream->drain()));
      if (sequence.tokens < sequence.enough) behind = &sequence;
    }
    if (behind == nullptr) return {};
    if (behind->ended) {
      return fail(Code::kContextLengthExceeded, "a sequence came to the context's end; give it more with --ctx");
    }
    CAIRN_TRY_VOID(behind->take(behind->stream->wait(std::chrono::seconds(1))));
  }
}

/// Enough context for a measurement, or else all that the model was trained for.
Result<int32_t> context_for(const ModelBenchFlags& flags) {
  const int32_t least = flags.prompt + flags.answer;
  const int32_t wanted = least + (flags.sequences > 1 ? kContextExtraOfSeveral : kContextExtra);
  CAIRN_TRY(const gguf::Reader file, flags.load.open_file());
  const auto described = loader::describe_model(file);
  const int64_t trained = described ? described->context_tokens : 0;
  return trained > least ? static_cast<int32_t>(std::min<int64_t>(wanted, trained)) : wanted;
}

Result<void> bench_model(ModelBenchFlags& flags) {
  loader::LoadOptions& options = flags.load.options;
  if (options.model.context_tokens == 0) {
    CAIRN_TRY(options.model.context_tokens, context_for(flags));
  }
  options.sequences = options.engine.sequences_max = options.engine.queue_max = flags.sequences;
  CAIRN_TRY(const auto model, flags.load.load());
  if (model->embedder != nullptr) return fail(Code::kUnsupported, "{} is an encoder: it writes no text", model->name);
  if (const int32_t most = model->runner->logits_max(); flags.sequences > most)
    return fail(Code::kInvalidArgument, "--sequences {}: at most {} decode together on {}", flags.sequences, most,
                model->device.text());
  {
    // A warm-up, to measure as on a running server: weights that stay in the file are read into memory, and the system
    // commits and clears the pages of scratch memory and cache.
    CAIRN_TRY(Sequences first, begin_sequences(*model, 1, std::min(flags.prompt, kWarmupPrompt), 1));
    CAIRN_TRY_VOID(wait_for_all(first, kWarmupAnswer));
  }
  while (model->engine->stats().active_requests > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));

  const auto begin = steady_clock::now();
  CAIRN_TRY(Sequences all, begin_sequences(*model, flags.sequences, flags.prompt, 2));
  CAIRN_TRY_VOID(wait_for_all(all, 1));
  // From here on every step has a row of each sequence.
  const auto first = steady_clock::now();
  CAIRN_TRY_VOID(wait_for_all(all, flags.answer));
  const auto rate = [&](int32_t tokens, steady_clock::duration time) {
    return flags.sequences * tokens / std::chrono::duration<double>(time).count();
  };
  const nlohmann::ordered_json result{
      {"model", model->name},
      {"quantisation", model->quantisation},
      {"backend", model->device.text()},
      {"sequences", flags.sequences},
      {"prompt_tokens", flags.prompt},
      {"answer_tokens", flags.answer},
      {"prefill_tokens_per_s", rate(flags.prompt, first - begin)},
      {"decode_tokens_per_s", rate(flags.answer, steady_clock::now() - first)},
  };
  print("{}\n", result.dump());
  return {};
}

Result<void> measure(ModelBenchFlags& flags) {
  CAIRN_TRY(flags.load, flags.load.found());
  return flags.depth > 0 ? bench_depth(flags.load, flags.depth, flags.answer) : bench_model(flags);
}

}  // namespace

void add_bench_model(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("model", "Measure a model without a server. It prints a line of JSON");
  set_help(*command, "cairn bench model qwen3-4b.gguf --sequences 4",
           {"--help", "--sequences", "--prompt", "--answer", "--depth", "--ctx", "--gpu-layers", "--threads",
            "--kv-type", "--speculate"});
  auto flags = std::make_shared<ModelBenchFlags>();
  flags->load.add_to(*command, true);
  auto* sequences =
      command->add_option("--sequences", flags->sequences, "Sequences that run at once, each with its own prompt");
  sequences->check(whole_number(1, 128))->capture_default_str();
  auto* prompt = command->add_option("--prompt", flags->prompt, "Tokens of each prompt, which are random");
  prompt->check(whole_number(1, 1 << 20))->capture_default_str();
  command->add_option("--answer", flags->answer, "Tokens to time in each sequence")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  auto* depth = command->add_option(
      "--depth", flags->depth,
      "Time the --answer tokens of one sequence behind this many tokens of context, of which all but "
      "the first 512 are copied within the cache (default: off)");
  depth->check(whole_number(1, 1 << 24))->excludes(prompt)->excludes(sequences);
  command->callback([flags, &exit_code] {
    if (const auto done = measure(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
