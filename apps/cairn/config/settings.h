/// Gives the options of a command what variables and a config file set them to: a flag comes before its variable, that
/// before the file, and the file before the default.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
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

/// Settings that settings_text has: those that are set, or all of them with what each does.
enum class ShownSettings : uint8_t { kSet, kAll };
/// The flag of `cairn config show` that asks for all of them, and is none itself.
inline constexpr std::string_view kAllSettings = "all";
/// The settings as a config file, each with where its value is from. With kAll, those that are not set say what holds
/// instead.
std::string settings_text(CLI::App& command, const SettingSources& sources, ShownSettings shown);

}  // namespace cairn
