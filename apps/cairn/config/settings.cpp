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

#include "base/text/edit_distance.h"
#include "base/text/printable.h"

namespace cairn {
namespace {

/// Options that are none of a server's settings.
bool is_setting(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return !names.empty() && names.front() != "help" && names.front() != "help-all";
}

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

CLI::Option* option_named(CLI::App& command, const std::string& name) {
  CLI::Option* option = command.get_option_no_throw("--" + name);
  return option != nullptr && is_setting(*option) ? option : nullptr;
}

/// "; is it queue-max?", if a name is nearly that.
std::string suggestion(const CLI::App& command, const std::string& name) {
  constexpr size_t kNear = 3, kCompared = 40;
  size_t best = kNear;
  std::string nearest;
  for (const CLI::Option* option : command.get_options()) {
    if (!is_setting(*option)) continue;
    for (const std::string& known : option->get_lnames()) {
      const size_t distance = edit_distance(name.substr(0, kCompared), known);
      if (distance >= best) continue;
      best = distance;
      nearest = known;
    }
  }
  return nearest.empty() ? std::string() : fmt::format("; is it {}?", nearest);
}

void give(CLI::Option& option, const std::string& value, const std::string& name) {
  if (is_flag(option)) {
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
    option.clear();
    return fmt::format("{}: {}: {}", setting.where, setting.name, printable(error.what(), kEchoBytesMax));
  }
  for (const CLI::Option* other : option.get_excludes()) {
    if (other->count() > 0) return fmt::format("{}: {} excludes {}", setting.where, setting.name, other->get_name());
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
  if (is_flag(option))
    return !values.empty() && values.back() == option.get_flag_value(name, "true") ? "true" : "false";
  if (values.size() == 1) return toml_text(values.front());
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "[" : ", ") + toml_text(value);
  return list + "]";
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

std::string settings_text(CLI::App& command, const SettingSources& sources) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (!is_setting(*option)) continue;
    const std::string& name = option->get_lnames().front();
    const auto source = sources.find(option);
    if (source != sources.end()) {
      text += fmt::format("{} = {}  # {}\n", name, values_text(*option, name), source->second);
    } else if (const std::string shown = option->get_default_str(); !shown.empty()) {
      text += fmt::format("{} = {}  # default\n", name, toml_text(shown));
    } else {
      text += fmt::format("# {}: not set\n", name);
    }
  }
  return text;
}

}  // namespace cairn
