/// Gives the options of a command what variables and a config file set them to: a flag comes before its variable, that
/// before the file, and the file before the default.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config_file.h"

namespace cairn {

/// Where each option that is set has its value from.
using SettingSources = std::map<const CLI::Option*, std::string>;

/// The variable of an option: --queue-max has CAIRN_QUEUE_MAX.
std::string variable_of(const std::string& option_name);
/// What the environment sets options of `command` to.
std::vector<Setting> environment_settings(CLI::App& command);

/// Gives options that have no source yet their values. Returns what is wrong, a line for each setting: no such option,
/// set twice, a value that the option does not take.
std::vector<std::string> apply_settings(CLI::App& command, std::span<const Setting> settings, SettingSources& sources);

/// The same for a command whose flags have been read: variables first, then the file of `config_path` (empty: none).
/// Error: kInvalidArgument with all that is wrong; read_config_file's.
Result<ConfigFile> configure(CLI::App& command, std::string config_path, SettingSources& sources);

/// The options that have values, or defaults, as a config file, each with where it is from.
std::string settings_text(CLI::App& command, const SettingSources& sources);

}  // namespace cairn
