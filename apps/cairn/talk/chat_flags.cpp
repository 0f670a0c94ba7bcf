#include "talk/chat_flags.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"
#include "help/help_format.h"
#include "help/value_checks.h"

namespace cairn {

chat::ReasoningOptions ChatFlags::reasoning() const {
  if (reasoning_budget < 0) return {};
  if (reasoning_budget == 0) return {.enabled = false};
  return {.tokens_max = reasoning_budget};
}

bool ChatFlags::shows_stats() const { return stats == "on" || (stats == "auto" && ::isatty(STDERR_FILENO) == 1); }

void ChatFlags::add_to(CLI::App& command) {
  load.add_template_flags(command);
  command.get_option("--log-level")->description("Least severe messages to log on standard error (default: warning)");
  command.add_option("--system", system, "System prompt (default: none)");
  command.add_option("-n,--max-tokens", max_tokens, "Maximum tokens of an answer; -1: until the context is full")
      ->check(whole_number(-1, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--reasoning-budget", reasoning_budget,
                  "Maximum tokens of thinking before each answer; 0: no thinking; -1: no limit")
      ->check(whole_number(-1, 1 << 30))
      ->capture_default_str()
      ->group(std::string(kTemplateHeading));
  command
      .add_option("--stats", stats,
                  "Whether to print tokens, speed and time after each answer, on standard error; auto: on a terminal")
      ->check(one_of({"on", "off", "auto"}))
      ->capture_default_str();
  command.add_option("--load", saved, "Saved conversation to continue: a file that /save wrote (default: none)")
      ->type_name("FILE");
  command.add_flag("--no-history", no_history,
                   "Neither store the messages you type nor recall earlier ones with the Up key; they are stored in "
                   "cairn/history in $XDG_STATE_HOME or ~/.local/state");
  form.add_to(command);
  sampling.add_to(command, ShownDefaults::kAll);
}

void quiet_log(const CLI::App& command) {
  if (command.get_option("--log-level")->count() == 0) set_log_level(LogLevel::kWarning);
}

Result<void> check_remote_options(const CLI::App& command, std::span<const std::string_view> others) {
  constexpr std::array<std::string_view, 15> kSent = {
      "url",        "api-key",          "model-file",  "chat-template-kwargs",
      "reasoning",  "reasoning-budget", "stats",       "system",
      "max-tokens", "log-level",        "json-schema", "grammar",
      "regex",      "no-history",       "load"};
  for (const CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    if (option->count() == 0 || names.empty() || option->get_group() == kSamplingHeading ||
        std::ranges::find(kSent, names.front()) != kSent.end() ||
        std::ranges::find(others, names.front()) != others.end())
      continue;
    return fail(Code::kInvalidArgument,
                "--{} has no effect with --url: it is for a model that is loaded here; leave it out", names.front());
  }
  return {};
}

}  // namespace cairn
