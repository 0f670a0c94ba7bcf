/// An option in words, for the help, for errors and for `cairn config show`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace cairn {

/// Whether it is a switch, which takes no value.
bool is_switch(const CLI::Option& option);
/// --help, --help-all and --version.
bool is_about_program(const CLI::Option& option);

/// What stands for its value: "N", "SIZE", "on|off|auto"; empty for a switch.
std::string value_name(const CLI::Option& option);
/// Its names as they are typed, with what stands for the value: "-n, --max-tokens N".
std::string names_text(const CLI::Option& option);
/// What it does, with its range and its default: "Requests that run at once (1 to 128; default: 64)".
std::string help_text(const CLI::Option& option);
/// What it does, without its default.
std::string about_text(const CLI::Option& option);
/// What holds where it is not set, if its text says that: "64", "as many as fit".
std::string default_text(const CLI::Option& option);

/// Why the option, which is called `called` there, has not taken its value: "--port takes 0 to 65535, not 99999".
std::string refusal(const CLI::Option& option, std::string_view called, const CLI::Error& error);

}  // namespace cairn
