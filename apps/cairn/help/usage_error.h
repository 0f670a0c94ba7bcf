/// What is wrong with a command line, in one line that says what to do.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

namespace cairn {

/// The command that a line has come to: the program, or the subcommand that was read last.
const CLI::App& chosen_command(const CLI::App& app);
/// "cairn config show"
std::string full_name(const CLI::App& command);
/// The subcommand of that name or alias; null: there is none.
const CLI::App* subcommand_named(const CLI::App& app, const std::string& name);

/// "there is no command srve; did you mean serve?"
std::string no_such_command(const CLI::App& app, const std::string& name);
/// The same, if the words begin with one that stands where a command is expected, and is none.
std::optional<std::string> unknown_command(const CLI::App& app, std::span<const std::string> words);

/// What CLI11 has found wrong with `words`, which are the program's arguments.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, std::span<const std::string> words);

}  // namespace cairn
