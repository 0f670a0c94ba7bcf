// `cairn eval`: asks a model questions with exact answers, compares two such runs, and scores given texts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system/new_file.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"
#include "commands.h"
#include "evaluation/answerer.h"
#include "evaluation/results.h"
#include "evaluation/run.h"
#include "evaluation/screen_view.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "output.h"
#include "progress_line.h"
#include "sampling/parameters.h"
#include "talk/chat_flags.h"
#include "talk/talk_model.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using evaluation::Progress;
using evaluation::Question;
using evaluation::QuestionState;
using nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr double kHundred = 100;

/// Whether --only means the question: its kind, one of its tags, or how its id begins.
bool is_meant(const Question& question, const std::string& only) {
  return only.empty() || evaluation::kind_name(question.kind) == only || question.id.starts_with(only) ||
         std::ranges::find(question.tags, only) != question.tags.end();
}

Result<std::vector<Question>> load_questions(const EvalFlags& flags) {
  const std::string name = flags.set.empty() ? "Cairn's own questions" : flags.set;
  std::string text;
  if (!flags.set.empty()) {
    CAIRN_TRY(text, flags.set == "-" ? read_standard_input("the set", evaluation::kSetBytesMax)
                                     : read_text_file(flags.set, "the set", evaluation::kSetBytesMax));
  }
  CAIRN_TRY(std::vector<Question> questions,
            evaluation::read_questions(flags.set.empty() ? evaluation::own_questions_text() : text, name));
  std::erase_if(questions, [&](const Question& question) { return !is_meant(question, flags.only); });
  if (questions.empty())
    return fail_at("--only", Code::kInvalidArgument,
                   "no question is of the kind {}, has it as a tag, or an id that begins so", flags.only);
  return questions;
}

ordered_json settings_of(const EvalFlags& flags) {
  ordered_json settings = {{"max_tokens", flags.max_tokens}, {"thinking", flags.thinking}};
  flags.sampling.add_to_request(settings);
  return settings;
}

evaluation::Results results_of(const EvalFlags& flags, const std::string& model, const evaluation::QuestionRun& run,
                               std::span<const Question> questions) {
  evaluation::Results results{
      .model = model, .set = flags.set.empty() ? "own" : flags.set, .settings = settings_of(flags)};
  for (size_t i = 0; i < questions.size(); ++i) {
    QuestionState state = run.state(i);
    if (state.progress != Progress::kDone) continue;
    const Question& question = questions[i];
    results.questions.push_back({.id = question.id,
                                 .kind = std::string(evaluation::kind_name(question.kind)),
                                 .level = question.level,
                                 .tags = question.tags,
                                 .grade = std::move(state.grade),
                                 .tokens = state.answer.tokens});
  }
  return results;
}

/// What was asked and answered, a line each.
std::string trace_of(const evaluation::QuestionRun& run, std::span<const Question> questions) {
  std::string text;
  for (size_t i = 0; i < questions.size(); ++i) {
    const QuestionState state = run.state(i);
    if (state.progress != Progress::kDone) continue;
    ordered_json calls = ordered_json::array();
    for (const evaluation::AnswerCall& call : state.answer.calls)
      calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
    const ordered_json line = {{"id", questions[i].id},
                               {"messages", evaluation::messages_of(questions[i])},
                               {"tools", questions[i].tools},
                               {"right", questions[i].answer_text},
                               {"content", state.answer.content},
                               {"reasoning", state.answer.reasoning},
                               {"calls", std::move(calls)},
                               {"tokens", state.answer.tokens},
                               {"outcome", evaluation::outcome_name(state.grade.outcome)},
                               {"read", state.grade.read}};
    text += cairn::json_text(line) + "\n";
  }
  return text;
}

Result<void> write_file(const std::string& path, std::string_view text) {
  if (path.empty()) return {};
  CAIRN_TRY(NewFile file, NewFile::create(path));
  CAIRN_TRY_VOID(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

/// A line for each question, in the set's order, as soon as those before it are answered.
Result<void> print_run(evaluation::QuestionRun& run, std::span<const Question> questions,
                       const std::atomic<bool>& stopped) {
  ProgressLine progress;
  const auto begin = steady_clock::now();
  size_t printed = 0;
  for (bool ended = false; !ended && !stopped;) {
    ended = run.wait(200ms);
    for (; printed < questions.size(); ++printed) {
      const QuestionState state = run.state(printed);
      if (state.progress != Progress::kDone) break;
      if (progress.on_terminal()) progress.show("");
      print("{:<7} {:<28} {}\n", evaluation::outcome_name(state.grade.outcome), questions[printed].id,
            state.grade.read);
      CAIRN_TRY_VOID(flush_output());
    }
    const size_t done = run.done();
    const std::string left =
        time_left(done, questions.size(), std::chrono::duration<double>(steady_clock::now() - begin).count());
    if (!ended)
      progress.show(fmt::format("{}/{} answered, {} right{}{}", done, questions.size(), run.right(),
                                left.empty() ? "" : ", ", left));
  }
  return {};
}

void print_report(const evaluation::Results& results) {
  print("\n{:<14} {:>9}  {:>6}  {:<16} {:>6} {:>4} {:>6}\n", "", "right", "%", "95 % interval", "unread", "cut",
        "failed");
  for (const auto& [name, tally] : evaluation::tallies_of(results)) {
    const evaluation::Interval interval = evaluation::wilson_interval(tally.right, tally.all);
    print("{:<14} {:>9}  {:>6.1f}  {:<16} {:>6} {:>4} {:>6}\n", name, fmt::format("{}/{}", tally.right, tally.all),
          kHundred * static_cast<double>(tally.right) / static_cast<double>(tally.all),
          fmt::format("{:.1f} to {:.1f}", kHundred * interval.low, kHundred * interval.high), tally.unread, tally.cut,
          tally.failed);
  }
}

Result<void> run_eval(const EvalFlags& flags, int& exit_code) {
  CAIRN_TRY(const std::vector<Question> questions, load_questions(flags));
  for (const std::string& path : {flags.json, flags.trace})
    if (!path.empty()) CAIRN_TRY_VOID(check_file_may_be_made(path));
  catch_interrupts();
  CAIRN_TRY(const auto answerer, flags.model.remote() ? make_remote_answerer(flags, chat_interrupted)
                                                      : make_local_answerer(flags, chat_interrupted));
  evaluation::QuestionRun run(questions, flags.parallel,
                              [&](const Question& question) { return answerer->answer(question); });
  const bool on_screen = !flags.plain && has_screen();
  CAIRN_TRY_VOID(on_screen ? view_run(run, questions, answerer->name(), chat_interrupted)
                           : print_run(run, questions, chat_interrupted));
  run.stop();
  const evaluation::Results results = results_of(flags, answerer->name(), run, questions);
  print_report(results);
  if (results.questions.size() < questions.size()) {
    print("\n{} of {} questions were not answered: the run was stopped\n", questions.size() - results.questions.size(),
          questions.size());
    exit_code = kExitFailed;
  }
  CAIRN_TRY_VOID(write_file(flags.json, evaluation::results_text(results)));
  return write_file(flags.trace, trace_of(run, questions));
}

/// Temperature 0 and seed 0, unless something else is asked for: two runs are then equal.
void make_repeatable(SamplingFlags& sampling) {
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
    if (parameter.name == "temperature" && !sampling.given.get("temperature")) sampling.given.set(parameter, 0);
  if (!sampling.seed) sampling.seed = 0;
}

void add_eval_flags(CLI::App& command, EvalFlags& flags) {
  command.add_option("MODEL", flags.model.load.model,
                     std::string(kModelHelp) + "; with --url, the server's name of it");
  command.add_option("SET", flags.set, "File of questions, JSON lines; - for standard input (default: Cairn's own)");
  flags.model.server.add_to(command);
  command.get_option("--url")->description("Ask a server that speaks OpenAI's protocol, in place of a file");
  command.add_option("--parallel", flags.parallel, "Questions that are asked at once")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command.add_option("-n,--max-tokens", flags.max_tokens, "Maximum tokens of an answer, with its thinking")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--thinking", flags.thinking,
                  "Whether the model thinks before it answers; auto: as its template has it")
      ->check(one_of({"on", "off", "auto"}))
      ->capture_default_str();
  command.add_option("--only", flags.only,
                     "Ask only questions of this kind, with this tag, or whose ids begin so (default: all)");
  command.add_flag("--plain", flags.plain, "Print a line per question, also on a terminal");
  command.add_option("--json", flags.json, "Write the grades to this file, for cairn eval compare (default: none)")
      ->type_name("FILE");
  command
      .add_option("--trace", flags.trace,
                  "Write everything asked and answered to this file, JSON lines (default: none)")
      ->type_name("FILE");
  flags.model.load.add_model_flags(command);
  add_log_flag(command);
  flags.sampling.add_to(command, ShownDefaults::kNone);
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "eval", "Ask a model questions with exact answers, compare two such runs, or score given texts");
  set_help(*command,
           "cairn eval qwen3-4b.gguf --json before.json\n"
           "  cairn eval compare before.json after.json",
           {"--help", "--url", "--api-key", "--parallel", "--max-tokens", "--thinking", "--only", "--plain", "--json",
            "--trace", "--temp", "--seed", "--ctx", "--gpu-layers", "--threads"});
  auto flags = std::make_shared<EvalFlags>();
  add_eval_flags(*command, *flags);
  add_eval_compare(*command, exit_code);
  add_eval_score(*command, exit_code);
  command->callback([command, flags, &exit_code] {
    if (!command->get_subcommands().empty()) return;  // which has run already
    if (flags->model.load.model.empty() && !flags->model.remote()) {
      exit_code = report({Code::kInvalidArgument, "which model? Name a file, or give --url; see cairn eval --help", {}},
                         kExitUsage);
      return;
    }
    quiet_log(*command);
    constexpr std::array<std::string_view, 7> kAlways = {"parallel", "max-tokens", "thinking", "only",
                                                         "plain",    "json",       "trace"};
    if (const auto fits = check_remote_options(*command, kAlways); flags->model.remote() && !fits) {
      exit_code = report(fits.error(), kExitUsage);
      return;
    }
    make_repeatable(flags->sampling);
    if (const auto done = run_eval(*flags, exit_code); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
