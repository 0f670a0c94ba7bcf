#include "help/usage_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "help/help_format.h"
#include "help/option_text.h"

namespace cairn {
namespace {

std::string see_help(const CLI::App& command) { return fmt::format("; see {} --help", full_name(command)); }

/// A flag as it is typed, "--port=5" or "-p5", without its dashes and what comes behind it.
std::string bare_name(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return std::string(word.substr(0, word.find('=')));
}

bool is_flag_word(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

/// The name of the option that was typed: the last one, if it was typed several times.
std::string typed_name(const CLI::Option& option, std::span<const std::string> words) {
  std::string name = option.get_name();
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      if (std::ranges::count(option.get_lnames(), bare_name(word)) > 0) name = word.substr(0, word.find('='));
    } else if (is_flag_word(word) && std::ranges::count(option.get_snames(), word.substr(1, 1)) > 0) {
      name = word.substr(0, 2);
    }
  }
  return name;
}

/// The option that CLI11's message is about, which begins with its name; null: it is about none.
const CLI::Option* option_of(const CLI::App& command, std::string_view message) {
  constexpr std::string_view kConversion = "Could not convert: ";
  if (message.starts_with(kConversion)) message.remove_prefix(kConversion.size());
  for (const CLI::Option* option : options_of(command)) {
    const std::string name = option->get_name();
    const std::string_view rest = message.substr(std::min(name.size(), message.size()));
    if (message.starts_with(name) && (rest.starts_with(": ") || rest.starts_with(" = "))) return option;
  }
  return nullptr;
}

/// The commands that have a flag, "cairn serve".
std::vector<std::string> commands_with(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands_of(app)) {
    for (const CLI::Option* option : options_of(*command))
      if (std::ranges::count(option->get_lnames(), flag) > 0) names.push_back(full_name(*command));
    for (std::string& inner : commands_with(*command, flag)) names.push_back(std::move(inner));
  }
  return names;
}

const CLI::App& program_of(const CLI::App& command) {
  const CLI::App* app = &command;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return *app;
}

std::string unknown_flag(const CLI::App& command, const std::string& word) {
  const std::string flag = bare_name(word);
  const std::string shown = printable(word.substr(0, word.find('=')));
  std::vector<std::string_view> known;
  for (const CLI::Option* option : options_of(command))
    for (const std::string& name : option->get_lnames()) known.emplace_back(name);
  const std::vector<std::string> others = commands_with(program_of(command), flag);
  if (!subcommands_of(command).empty() && !others.empty())
    return fmt::format("{} belongs behind its command: {} {}", shown, others.front(), shown);
  std::string hint = did_you_mean(flag, known, kNearestMax, "--");
  if (hint.empty() && !others.empty()) hint = fmt::format("; it is a flag of {}", others.front());
  return fmt::format("{} has no flag {}{} {} lists its flags", full_name(command), shown,
                     hint.ends_with('?') ? hint : hint + ";",
                     full_name(command) + (command.get_help_all_ptr() != nullptr ? " --help-all" : " --help"));
}

std::string unexpected(const CLI::App& app) {
  const CLI::App& command = chosen_command(app);
  std::vector<std::string> left = command.remaining();
  if (left.empty()) left = app.remaining();
  const auto flag = std::ranges::find_if(left, is_flag_word);
  if (flag != left.end()) return unknown_flag(command.remaining().empty() ? app : command, *flag);
  if (left.empty()) return "the command line has too many words" + see_help(command);
  if (needs_subcommand(command)) return no_such_command(command, left.front());
  return fmt::format("{} has no use for {}{}", full_name(command), printable(left.front()), see_help(command));
}

std::string missing(const CLI::App& command, const CLI::ParseError& error) {
  for (const CLI::Option* option : options_of(command)) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::string name = option->nonpositional() ? names_text(*option) : option->get_name(/*positional=*/true);
    return fmt::format("{} needs {}: {}{}", full_name(command), name, help_text(*option), see_help(command));
  }
  // One of a group.
  std::string names;
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); }))
    for (const CLI::Option* option : group->get_options({}))
      if (!is_about_program(*option)) names += (names.empty() ? "" : ", ") + names_text(*option);
  if (names.empty()) return error.what();
  return fmt::format("{} needs exactly one of these: {}{}", full_name(command), names, see_help(command));
}

}  // namespace

const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  for (auto read = command->get_subcommands(); !read.empty(); read = command->get_subcommands()) command = read.back();
  return *command;
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : full_name(*command.get_parent()) + " " + command.get_name();
}

const CLI::App* subcommand_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : subcommands_of(app))
    if (command->get_name() == name || std::ranges::count(command->get_aliases(), name) > 0) return command;
  return nullptr;
}

std::string no_such_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string_view> known;
  for (const CLI::App* command : subcommands_of(app)) {
    known.emplace_back(command->get_name());
    for (const std::string& alias : command->get_aliases()) known.emplace_back(alias);
  }
  const std::string hint = did_you_mean(name, known);
  const bool is_program = app.get_parent() == nullptr;
  const std::string shown = is_program ? printable(name) : fmt::format("{} {}", full_name(app), printable(name));
  return fmt::format("there is no command {}{}", shown,
                     hint.empty() ? fmt::format("; {} --help lists the commands", full_name(app)) : hint);
}

std::optional<std::string> unknown_command(const CLI::App& app, std::span<const std::string> words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    if (!needs_subcommand(*command) || word.starts_with('-')) return std::nullopt;
    const CLI::App* next = subcommand_named(*command, word);
    if (next == nullptr) return no_such_command(*command, word);
    command = next;
  }
  return std::nullopt;
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error, std::span<const std::string> words) {
  const CLI::App& command = chosen_command(app);
  // Not its name, which for words too many is that of the program.
  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  const std::string what = error.what();
  if (kind == CLI::ExitCodes::ExtrasError) return unexpected(app);
  if (kind == CLI::ExitCodes::RequiredError) return missing(command, error);
  if (const CLI::Option* option = option_of(command, what); option != nullptr)
    return refusal(*option, typed_name(*option, words), error) + see_help(command);
  const auto typed = [&](const std::string& name) {
    for (const CLI::Option* option : options_of(command))
      if (option->get_name() == name) return typed_name(*option, words);
    return name;
  };
  // "--tls-key requires --tls-cert", "--clients excludes --rate"
  const std::string first = typed(what.substr(0, what.find(' '))), second = typed(what.substr(what.rfind(' ') + 1));
  if (kind == CLI::ExitCodes::ExcludesError) return fmt::format("{} excludes {}: give one of them", first, second);
  if (kind == CLI::ExitCodes::RequiresError)
    return fmt::format("{} needs {} as well{}", first, second, see_help(command));
  return what + see_help(command);
}

}  // namespace cairn
