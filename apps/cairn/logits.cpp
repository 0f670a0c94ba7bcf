// `cairn logits`: prints the model's logits after each of some token ids, for comparison with other programs.
#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/page_pool.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"
#include "model/runner.h"
#include "output.h"
#include "values.h"

namespace cairn {

namespace {

struct LogitsFlags {
  LoadFlags load;
  std::vector<std::string> tokens;
  int32_t chunk = 128;
  bool last = false;
};

void print_row(std::span<const float> row) {
  print("[");
  for (size_t i = 0; i < row.size(); ++i) print("{}{:.9g}", i == 0 ? "" : ",", static_cast<double>(row[i]));
  print("]");
}

Result<std::vector<TokenId>> read_tokens(const std::vector<std::string>& texts, const model::Runner& runner) {
  std::vector<TokenId> tokens;
  for (const std::string& text : texts) {
    int32_t token = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), token);
    if (error != std::errc() || rest != text.data() + text.size() || token < 0 || token >= runner.vocabulary()) {
      return fail(Code::kInvalidArgument, "{} is not a token id of this model, which has 0 to {}", text,
                  runner.vocabulary() - 1);
    }
    tokens.push_back(TokenId{token});
  }
  if (static_cast<int64_t>(tokens.size()) > runner.context_tokens()) {
    return fail(Code::kContextLengthExceeded, "{} tokens, but the context holds {}; raise --ctx", tokens.size(),
                runner.context_tokens());
  }
  return tokens;
}

/// Runs all tokens, one chunk per step, and prints rows as they come.
Result<void> print_logits(const LogitsFlags& flags, std::span<const TokenId> tokens, model::Runner& runner,
                          cache::PagePool& pool) {
  const int32_t count = static_cast<int32_t>(tokens.size());
  cache::PageTable pages;
  if (!pool.extend(pages, count)) return fail(Code::kInternal, "the page pool is smaller than the prompt");
  print_text("{\"positions\":[");
  for (int32_t i = flags.last ? count - 1 : 0; i < count; ++i) print("{}{}", i, i + 1 < count ? "," : "");
  print_text("],\"logits\":[");
  for (int32_t begin = 0; begin < count; begin += flags.chunk) {
    model::BatchSlice slice;
    slice.rows = std::min(flags.chunk, count - begin);
    slice.position_begin = begin;
    slice.pages = &pages;
    const bool is_last = begin + slice.rows == count;
    slice.logits = !flags.last ? model::LogitsWanted::kAll
                   : is_last   ? model::LogitsWanted::kLast
                               : model::LogitsWanted::kNone;
    CAIRN_TRY(const model::LogitsView view,
              runner.step({tokens.subspan(begin, slice.rows), std::span(&slice, 1), &pool}));
    for (int64_t row = 0; row < view.rows(); ++row) {
      if (begin + row > 0 && !flags.last) print(",");
      print_row(view.row(row));
    }
    CAIRN_TRY_VOID(flush_output());
  }
  return show("]}\n");
}

Result<void> run_logits(const LogitsFlags& flags) {
  CAIRN_TRY(const LoadFlags load, flags.load.found());
  CAIRN_TRY(const gguf::Reader file, load.open_file());
  model::ModelOptions sizes = load.options.model;
  sizes.batch_tokens_max = sizes.logits_max = flags.chunk;
  CAIRN_TRY(const LoadedRunner loaded, load.load_runner(file, sizes, 1));
  model::Runner& runner = *loaded.runner;
  CAIRN_TRY(const std::vector<TokenId> tokens, read_tokens(flags.tokens, runner));
  const int32_t pages = (static_cast<int32_t>(tokens.size()) + kernels::kPageTokens - 1) / kernels::kPageTokens;
  const std::vector<int32_t> pages_of_each(runner.kv_layout().groups.size(), pages);
  CAIRN_TRY(cache::PagePool pool, cache::PagePool::create(loaded.device.memories(), runner.kv_layout(), pages_of_each));
  return print_logits(flags, tokens, runner, pool);
}

}  // namespace

void add_logits(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command = app.add_subcommand("logits", "Print a model's logits after each token of a list, as JSON");
  set_help(*command, "cairn logits qwen3-4b.gguf --tokens 1,2,3 --last",
           {"--help", "--tokens", "--last", "--ctx", "--chunk", "--kv-type", "--gpu-layers", "--threads"});
  flags->load.options.model.kv_type = kernels::KvType::kF32;
  command->add_option("MODEL", flags->load.model, kModelHelp)->required();
  add_list(*command, "--tokens", flags->tokens, "Token ids, separated by commas")->required()->type_name("1,2,3");
  command->add_option("--chunk", flags->chunk, "Tokens per step; the result does not depend on it")
      ->check(whole_number(1, 4'096))
      ->capture_default_str();
  command
      ->add_option("--ctx", flags->load.options.model.context_tokens,
                   "Context size in tokens (default: what the model was trained for)")
      ->check(whole_number(1, 1 << 24));
  flags->load.add_runner_flags(*command);
  command->add_flag("--last", flags->last, "Print only the logits after the last token");
  command->callback([flags, &exit_code] {
    if (const auto done = run_logits(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
