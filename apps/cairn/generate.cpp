// cairn generate: continues a text.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/text/text_file.h"
#include "base/text/utf8.h"
#include "chat/answer/form.h"
#include "chat/completion_prompt.h"
#include "commands.h"
#include "form_flags.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"
#include "output.h"
#include "sampling_flags.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

constexpr int32_t kTokensDefault = 128;

struct GenerateFlags {
  LoadFlags load;
  SamplingFlags sampling;
  FormFlags form;
  std::string prompt;
  std::optional<int32_t> max_tokens;  ///< unset: what was made of the model says, or kTokensDefault
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool quiet = false;
};

using Seconds = std::chrono::duration<double>;

void print_timings(const engine::Usage& usage, Seconds to_first, Seconds rest) {
  const auto rate = [](int32_t tokens, Seconds time) { return time.count() > 0 ? tokens / time.count() : 0; };
  std::fprintf(stderr, "prompt: %d tokens, %.2f s (%.1f tokens/s); answer: %d tokens, %.2f s (%.1f tokens/s)\n",
               usage.prompt_tokens, to_first.count(), rate(usage.prompt_tokens, to_first), usage.completion_tokens,
               rest.count(), rate(usage.completion_tokens - 1, rest));
}

Result<void> generate(GenerateFlags& flags) {
  if (flags.quiet) set_log_level(LogLevel::kWarning);
  if (flags.prompt == "-") {
    CAIRN_TRY(flags.prompt, read_standard_input("--prompt"));
  }
  if (const size_t valid = utf8_valid_prefix(flags.prompt); valid != flags.prompt.size()) {
    return fail(Code::kInvalidArgument, "the prompt is not valid UTF-8 at byte {}", valid);
  }
  CAIRN_TRY(const chat::AnswerForm form, flags.form.read());
  grammar::GrammarCache grammars(flags.form.reading);
  CAIRN_TRY_VOID(check_form(form, grammars));
  flags.load.options.sequences = 1;
  CAIRN_TRY(const LoadFlags load, flags.load.found({.made = true}));
  CAIRN_TRY(const auto model, load.load());
  engine::GenerateRequest request;
  CAIRN_TRY_VOID(chat::hold_to_form(model->chat_model(), form, &grammars, {&request, 1}));
  CAIRN_TRY(request.prompt, chat::completion_prompt_tokens(model->prompt_context(), flags.prompt));
  request.sampling = flags.sampling.finish(model->file.metadata(), load.made);
  request.max_tokens = flags.max_tokens ? *flags.max_tokens : load.made.predict.value_or(kTokensDefault);
  request.stop = flags.stop.empty() ? load.made.stop : flags.stop;
  request.ignore_eos = flags.ignore_eos;
  const auto begin = std::chrono::steady_clock::now();
  CAIRN_TRY(const auto stream, model->engine->submit(std::move(request)));
  auto first = begin;
  while (true) {
    engine::Events events = stream->wait(1000ms);
    if (first == begin && !events.tokens.empty()) first = std::chrono::steady_clock::now();
    for (const auto& token : events.tokens) print_text(token.text);
    if (events.finished) {
      CAIRN_TRY_VOID(show(events.finish.text + "\n"));
      if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(events.finish.error);
      if (form && events.finish.reason == engine::FinishReason::kLength)
        log_warning("the text reached --max-tokens before it was complete by {}; raise --max-tokens", form->field);
      if (!flags.quiet) print_timings(events.finish.usage, first - begin, std::chrono::steady_clock::now() - first);
      return {};
    }
    CAIRN_TRY_VOID(flush_output());
  }
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("generate", "Continue a text. The model gets it as it is, without a chat template");
  set_help(*command, "cairn generate qwen3-4b.gguf -p \"Once upon a time\" -n 100",
           {"--help", "--prompt", "--max-tokens", "--stop", "--quiet", "--ctx", "--gpu-layers", "--threads", "--temp",
            "--seed", "--json-schema"});
  auto flags = std::make_shared<GenerateFlags>();
  flags->load.add_to(*command, true);
  command->add_option("-p,--prompt", flags->prompt, "Text to continue; - for standard input")->required();
  command->add_option("-n,--max-tokens", flags->max_tokens, "Maximum tokens to write; -1: until the context is full")
      ->check(whole_number(-1, 1 << 30))
      ->capture_default_str();
  command->add_option("--stop", flags->stop, "Text that ends the answer; repeatable (default: none)")
      ->take_all()
      ->allow_extra_args(false);  // a text in square brackets would be a list
  command->add_flag("--ignore-eos", flags->ignore_eos, "Keep writing after the model ends its text");
  command->add_flag("-q,--quiet", flags->quiet, "Print only the text: no log, no timings");
  flags->form.add_to(*command);
  flags->sampling.add_to(*command, ShownDefaults::kAll);
  command->callback([flags, &exit_code] {
    if (const auto done = generate(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
