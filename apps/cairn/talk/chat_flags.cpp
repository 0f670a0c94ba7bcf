#include "talk/chat_flags.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"

namespace cairn {

chat::ReasoningOptions ChatFlags::reasoning() const {
  if (reasoning_budget < 0) return {};
  if (reasoning_budget == 0) return {.enabled = false};
  return {.tokens_max = reasoning_budget};
}

bool ChatFlags::shows_stats() const { return stats == "on" || (stats == "auto" && ::isatty(STDERR_FILENO) == 1); }

void ChatFlags::add_to(CLI::App& command) {
  load.add_template_flags(command);
  command.get_option("--log-level")->description("What is written to standard error (default: warning)");
  command.add_option("--system", system, "System message");
  command.add_option("-n,--max-tokens", max_tokens, "Tokens of one answer at most; -1: to the end of the context")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--reasoning-budget", reasoning_budget,
                  "Tokens of one answer's thinking, which then is closed; 0: it does not think; -1: no limit")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--stats", stats,
                  "A line after each answer on standard error, with its tokens, their speed and the time: on, off, or "
                  "auto, on a terminal")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->capture_default_str();
  command.add_flag("--no-history", no_history,
                   "Messages of this conversation are not kept for later ones, and earlier ones are not recalled "
                   "(default: cairn/history in $XDG_STATE_HOME or ~/.local/state)");
  form.add_to(command);
  sampling.add_to(command, ShownDefaults::kAll);
}

void quiet_log(const CLI::App& command) {
  if (command.get_option("--log-level")->count() == 0) set_log_level(LogLevel::kWarning);
}

Result<void> check_remote_options(const CLI::App& command) {
  constexpr std::array<std::string_view, 14> kSent = {
      "url",        "api-key",          "model-file",  "chat-template-kwargs",
      "reasoning",  "reasoning-budget", "stats",       "system",
      "max-tokens", "log-level",        "json-schema", "grammar",
      "regex",      "no-history"};
  for (const CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    if (option->count() == 0 || names.empty() || option->get_group() == kSamplingHeading ||
        std::ranges::find(kSent, names.front()) != kSent.end())
      continue;
    return fail(Code::kInvalidArgument, "--{} has no effect with --url: it is about a model that is loaded here",
                names.front());
  }
  return {};
}

}  // namespace cairn
