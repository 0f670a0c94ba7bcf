#include "config/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "help/option_text.h"

namespace cairn {
namespace {

constexpr size_t kRefusalBytesMax = 400;

/// Options that are none of a server's settings.
bool is_setting(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return !names.empty() && !is_about_program(option) && names.front() != kAllSettings;
}

CLI::Option* option_named(CLI::App& command, const std::string& name) {
  CLI::Option* option = command.get_option_no_throw("--" + name);
  return option != nullptr && is_setting(*option) ? option : nullptr;
}

/// "; did you mean queue-max?", if a name is nearly that.
std::string suggestion(const CLI::App& command, const std::string& name) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : command.get_options())
    if (is_setting(*option)) known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
  const std::string hint = did_you_mean(name, known);
  return hint.empty() ? "; cairn serve --help-all lists them" : hint;
}

void give(CLI::Option& option, const std::string& value, const std::string& name) {
  if (is_switch(option)) {
    if (value != "true" && value != "false") throw CLI::ValidationError(name, "is a switch: true or false");
    const std::string shown = option.get_flag_value(name, "true");
    if (value == "true") {
      option.add_result(shown);
    } else if (shown == "true" || shown == "false") {
      option.add_result(shown == "true" ? "false" : "true");
    }
  } else {
    option.add_result(value);
  }
}

/// What is wrong; nothing if the option has taken the values.
std::optional<std::string> set_option(CLI::Option& option, const Setting& setting) {
  const bool one_by_one = option.get_trigger_on_parse();
  try {
    for (const std::string& value : setting.values) {
      if (one_by_one) option.clear();
      give(option, value, setting.name);
      if (one_by_one) option.run_callback();
    }
    if (!one_by_one && option.count() > 0) option.run_callback();
  } catch (const CLI::Error& error) {
    const std::string why = refusal(option, setting.name, error);  // of the values, which go next
    option.clear();
    return fmt::format("{}: {}", setting.where, cut_text(why, kRefusalBytesMax));
  }
  for (const CLI::Option* other : option.get_excludes()) {
    if (other->count() > 0)
      return fmt::format("{}: {} excludes {}; leave one of them out", setting.where, setting.name, other->get_name());
  }
  return std::nullopt;
}

/// A value as TOML has it: a number only if it would be read as the same text again.
std::string toml_text(const std::string& value) {
  const auto json = nlohmann::json::parse(value, nullptr, false);
  const bool whole =
      json.is_number_integer() && (!json.is_number_unsigned() ||
                                   json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if ((json.is_boolean() || json.is_number_float() || whole) && json.dump() == value) return value;
  // JSON's strings, but that they may have a DEL; escapes of surrogates are JSON's alone.
  std::string text = nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('\x7f', at)) != std::string::npos;) text.replace(at, 1, "\\u007F");
  return text;
}

std::string values_text(const CLI::Option& option, const std::string& name) {
  const std::vector<std::string>& values = option.results();
  if (is_switch(option))
    return !values.empty() && values.back() == option.get_flag_value(name, "true") ? "true" : "false";
  if (values.size() == 1) return toml_text(values.front());
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "[" : ", ") + toml_text(value);
  return list + "]";
}

std::string value_line(const CLI::Option& option, const std::string& source) {
  const std::string& name = option.get_lnames().front();
  return fmt::format("{} = {}  # {}\n", name, values_text(option, name), source);
}

/// The value that holds where none is set, which is a setting again if it is one value.
std::string default_line(const CLI::Option& option) {
  const std::string& name = option.get_lnames().front();
  if (const std::string& shown = option.get_default_str(); !shown.empty())
    return fmt::format("{} = {}  # default\n", name, is_switch(option) ? shown : toml_text(shown));
  // No setting, as a switch may exclude another one, even if it is off.
  if (is_switch(option)) return fmt::format("# {} is not set: false\n", name);
  const std::string otherwise = default_text(option);
  return fmt::format("# {} is not set: {}\n", name, otherwise.empty() ? "none" : otherwise);
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::string variable_of(const std::string& option_name) {
  std::string name = "CAIRN_";
  for (const char c : option_name)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::vector<Setting> environment_settings(CLI::App& command) {
  std::vector<Setting> settings;
  for (const CLI::Option* option : command.get_options()) {
    if (!is_setting(*option)) continue;
    for (const std::string& name : option->get_lnames()) {
      const std::string variable = variable_of(name);
      const char* value = std::getenv(variable.c_str());
      if (value == nullptr || *value == '\0') continue;
      settings.push_back({name, {value}, "the variable " + variable});
      break;
    }
  }
  return settings;
}

std::vector<std::string> apply_settings(CLI::App& command, std::span<const Setting> settings, SettingSources& sources) {
  std::vector<std::string> wrong;
  std::map<const CLI::Option*, const Setting*> seen;
  for (const Setting& setting : settings) {
    CLI::Option* option = option_named(command, setting.name);
    if (option == nullptr) {
      wrong.push_back(fmt::format("{}: there is no option {}{}", setting.where, printable(setting.name),
                                  suggestion(command, setting.name)));
      continue;
    }
    const auto [earlier, first] = seen.emplace(option, &setting);
    if (!first) {
      wrong.push_back(fmt::format("{}: {} is set already, as {} ({})", setting.where, setting.name,
                                  earlier->second->name, earlier->second->where));
      continue;
    }
    if (sources.contains(option)) continue;
    if (auto problem = set_option(*option, setting)) {
      wrong.push_back(std::move(*problem));
    } else {
      sources[option] = setting.where;
    }
  }
  return wrong;
}

Result<ConfigFile> configure(CLI::App& command, std::string config_path, SettingSources& sources) {
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0) sources.emplace(option, "the command line");
  std::vector<std::string> wrong = apply_settings(command, environment_settings(command), sources);
  ConfigFile config;
  if (config_path.empty()) {
    if (const char* path = std::getenv("CAIRN_CONFIG"); path != nullptr) config_path = path;
  }
  if (!config_path.empty()) {
    CAIRN_TRY(config, read_config_file(config_path));
    const auto in_file = apply_settings(command, config.settings, sources);
    wrong.insert(wrong.end(), in_file.begin(), in_file.end());
  }
  if (wrong.empty()) return config;
  std::string all;
  for (const std::string& problem : wrong) all += (all.empty() ? "" : "; ") + problem;
  return fail(Code::kInvalidArgument, "{}", all);
}

std::string settings_text(CLI::App& command, const SettingSources& sources, ShownSettings shown) {
  const auto options = command.get_options([](CLI::Option* option) { return is_setting(*option); });
  std::string text;
  if (shown == ShownSettings::kSet) {
    for (const CLI::Option* option : options)
      if (sources.contains(option)) text += value_line(*option, sources.at(option));
    return text + fmt::format("# {} other settings have their defaults: cairn config show --all\n",
                              options.size() - static_cast<size_t>(std::ranges::count(text, '\n')));
  }
  std::vector<std::string> groups;
  for (const CLI::Option* option : options)
    if (std::ranges::find(groups, option->get_group()) == groups.end()) groups.push_back(option->get_group());
  for (const std::string& group : groups) {
    text += fmt::format("{}# ---- {} ----\n", text.empty() ? "" : "\n", group);
    for (const CLI::Option* option : options) {
      if (option->get_group() != group) continue;
      text += fmt::format("\n# {}\n", one_line(about_text(*option)));
      text += sources.contains(option) ? value_line(*option, sources.at(option)) : default_line(*option);
    }
  }
  return text;
}

}  // namespace cairn
