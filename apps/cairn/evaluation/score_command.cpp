// `cairn eval score`: how likely a model finds given continuations of given prompts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "base/text/text_file.h"
#include "commands.h"
#include "evaluation/answerer.h"
#include "help/help_format.h"
#include "output.h"
#include "progress_line.h"
#include "talk/chat_flags.h"
#include "talk/talk_model.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr size_t kFileBytesMax = 64u << 20;

struct ScoreFlags {
  AskedModel model;
  std::vector<std::string> words;  ///< [MODEL] FILE
  bool json = false;
};

struct GivenText {
  std::string id;
  std::string prompt;
  std::string continuation;
};

Result<GivenText> read_line(std::string_view line, size_t number) {
  auto object = read_json(line);
  if (!object) return fail(object.error().code, "the line is no JSON: it {}", object.error().message);
  if (!object->is_object()) return fail(Code::kInvalidArgument, "the line is no JSON object");
  GivenText given{text_member_of(*object, "id"), text_member_of(*object, "prompt"),
                  text_member_of(*object, "continuation")};
  if (!member_of(*object, "prompt").is_string() || given.continuation.empty())
    return fail(Code::kInvalidArgument, "needs \"prompt\", a text, and \"continuation\", a text that is not empty");
  if (given.id.empty()) given.id = std::to_string(number);
  return given;
}

Result<std::vector<GivenText>> read_texts(const std::string& name) {
  CAIRN_TRY(const std::string text, name == "-" ? read_standard_input("the texts", kFileBytesMax)
                                                : read_text_file(name, "the texts", kFileBytesMax));
  std::vector<GivenText> texts;
  size_t number = 0;
  for (std::string_view left = text; !left.empty();) {
    const size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto given = read_line(line, number);
    if (!given)
      return fail_at(fmt::format("{}, line {}", name, number), given.error().code, "{}", given.error().text());
    texts.push_back(*std::move(given));
  }
  if (texts.empty()) return fail_at(name, Code::kInvalidArgument, "the file has no line");
  return texts;
}

void print_score(const ScoreFlags& flags, const std::string& id, const ContinuationScore& score) {
  const double mean = score.tokens > 0 ? score.logprob / static_cast<double>(score.tokens) : 0;
  if (flags.json) {
    const ordered_json line = {{"id", id},
                               {"tokens", score.tokens},
                               {"logprob", score.logprob},
                               {"logprob_per_token", mean},
                               {"perplexity", std::exp(-mean)}};
    print("{}\n", json_text(line));
  } else {
    print("{:<28} {:>7} tokens  logprob {:>11.4f}  per token {:>9.5f}  perplexity {:>10.4f}\n", id, score.tokens,
          score.logprob, mean, std::exp(-mean));
  }
}

Result<void> run_score(ScoreFlags& flags) {
  if (flags.words.size() == 2) flags.model.load.model = flags.words.front();
  if (flags.model.load.model.empty() && !flags.model.remote())
    return fail(Code::kInvalidArgument, "which model? Give a model's file before the file of texts, or --url");
  CAIRN_TRY(const std::vector<GivenText> texts, read_texts(flags.words.back()));
  catch_interrupts();
  CAIRN_TRY(const auto scorer, flags.model.remote() ? make_remote_scorer(flags.model, chat_interrupted)
                                                    : make_local_scorer(flags.model.load, chat_interrupted));
  ContinuationScore all;
  ProgressLine progress;
  for (size_t i = 0; i < texts.size(); ++i) {
    progress.show(fmt::format("{}/{} texts", i, texts.size()));
    auto score = scorer->score(texts[i].prompt, texts[i].continuation);
    if (!score) return fail_at(texts[i].id, score.error().code, "{}", score.error().text());
    if (progress.on_terminal()) progress.show("");
    print_score(flags, texts[i].id, *score);
    CAIRN_TRY_VOID(flush_output());
    all.tokens += score->tokens;
    all.logprob += score->logprob;
  }
  if (texts.size() > 1) print_score(flags, "all", all);
  return {};
}

}  // namespace

void add_eval_score(CLI::App& eval, int& exit_code) {
  auto* command = eval.add_subcommand("score", "Score given continuations of given prompts by their log-probabilities");
  set_help(*command, "cairn eval score qwen3-4b.gguf answers.jsonl",
           {"--help", "--url", "--api-key", "--json", "--ctx", "--gpu-layers", "--threads"});
  auto flags = std::make_shared<ScoreFlags>();
  command
      ->add_option("FILES", flags->words,
                   "A GGUF file or a model's name, then the file of texts: JSON lines with id, prompt and continuation "
                   "(- for standard input). With --url, the model is the server's, and may be left out")
      ->expected(1, 2)
      ->required();
  flags->model.server.add_to(*command);
  command->get_option("--url")->description(
      "Ask a server that scores prompts (echo with logprobs), in place of a file");
  command->add_flag("--json", flags->json, "Print JSON lines, for programs");
  flags->model.load.add_model_flags(*command);
  add_log_flag(*command);
  command->callback([command, flags, &exit_code] {
    quiet_log(*command);
    constexpr std::array<std::string_view, 1> kAlways = {"json"};
    if (const auto fits = check_remote_options(*command, kAlways); flags->model.remote() && !fits) {
      exit_code = report(fits.error(), kExitUsage);
      return;
    }
    if (const auto done = run_score(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
