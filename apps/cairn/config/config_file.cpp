#include "config/config_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
// It asserts that a key begins like one, which "[[[" does not, and names the error behind that.
#define TOML_ASSERT(expr) static_assert(true)
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text/printable.h"
#include "base/text/text_file.h"

namespace cairn {
namespace {

constexpr std::string_view kModelTables = "model";

std::string place(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}, line {}", path, source.begin.line);
}

std::unexpected<Error> refuse_setting(const std::string& where, std::string_view what) {
  return fail(Code::kInvalidArgument, "{}: {}", where, what);
}

std::string node_text(const toml::node& node) {
  std::ostringstream text;
  if (const toml::table* table = node.as_table()) text << toml::json_formatter(*table);
  if (const toml::array* list = node.as_array()) text << toml::json_formatter(*list);
  return text.str();
}

/// Nothing for dates and times.
std::optional<std::string> setting_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (node.is_table()) return node_text(node);
  return std::nullopt;
}

Result<Setting> setting_of(const std::string& path, const toml::key& key, const toml::node& node) {
  Setting setting{std::string(key.str()), {}, place(path, key.source())};
  const std::string name = printable(key.str());
  const toml::array* list = node.as_array();
  if (list != nullptr && list->size() > kConfigListMax)
    return refuse_setting(setting.where, fmt::format("{} has more than {} values", name, kConfigListMax));
  const auto add = [&](const toml::node& value) {
    auto text = setting_text(value);
    if (text) setting.values.push_back(std::move(*text));
    return text.has_value();
  };
  bool taken = true;
  if (list == nullptr) {
    taken = add(node);
  } else {
    for (const toml::node& value : *list) taken = taken && !value.is_table() && add(value);
  }
  if (!taken)
    return refuse_setting(setting.where, name + " must be a text, a number, true or false, or a list of them");
  if (setting.values.empty()) return refuse_setting(setting.where, name + " is an empty list; leave it out");
  return setting;
}

Result<void> check_size(const std::string& path, const toml::table& table) {
  if (table.size() <= kConfigSettingsMax) return {};
  return refuse_setting(place(path, table.source()), fmt::format("more than {} settings", kConfigSettingsMax));
}

Result<std::vector<Setting>> settings_of(const std::string& path, const toml::table& table) {
  std::vector<Setting> settings;
  CAIRN_TRY_VOID(check_size(path, table));
  for (const auto& [key, node] : table) {
    CAIRN_TRY(Setting setting, setting_of(path, key, node));
    settings.push_back(std::move(setting));
  }
  return settings;
}

Result<std::vector<ConfigFile::Model>> models_of(const std::string& path, const toml::table& tables) {
  std::vector<ConfigFile::Model> models;
  if (tables.size() > kConfigModelsMax)
    return refuse_setting(place(path, tables.source()), fmt::format("more than {} tables of models", kConfigModelsMax));
  for (const auto& [key, node] : tables) {
    const toml::table* table = node.as_table();
    const std::string where = place(path, key.source());
    if (table == nullptr) {
      return refuse_setting(
          where, fmt::format("[model] has a table for each model, [model.\"NAME\"]; {} is none", printable(key.str())));
    }
    CAIRN_TRY(auto settings, settings_of(path, *table));
    models.push_back({std::string(key.str()), where, std::move(settings)});
  }
  return models;
}

/// Where the text of a string ends that begins at `at`, behind its quotes; the text's end if that is missing.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const bool long_string = three.size() == 3 && three[1] == quote && three[2] == quote;
  size_t end = at + (long_string ? 3 : 1);
  while (end < text.size()) {
    if (quote == '"' && text[end] == '\\') {
      end += 2;
    } else if (long_string ? text.substr(end, 3) == three : text[end] == quote) {
      return end + (long_string ? 3 : 1);
    } else if (!long_string && text[end] == '\n') {
      return end;
    } else {
      ++end;
    }
  }
  return text.size();
}

/// Refuses keys of many parts before they are parsed, which takes time that grows with the square of their number.
Result<void> check_keys(std::string_view text, const std::string& path) {
  size_t line = 1, parts = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const size_t end = end_of_string(text, at);
      line += static_cast<size_t>(std::ranges::count(text.substr(at, end - at), '\n'));
      at = end;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '\n') ++line;
    if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) parts = 1;
    if (c == '.' && ++parts > kConfigKeyPartsMax)
      return fail(Code::kTooLarge, "{}, line {}: the key has more than {} parts", path, line, kConfigKeyPartsMax);
    ++at;
  }
  return {};
}

}  // namespace

Result<ConfigFile> parse_config(std::string_view text, const std::string& path) {
  if (text.size() > kConfigBytesMax)
    return fail(Code::kTooLarge, "{} has over {} bytes, which no config file needs", path, kConfigBytesMax);
  CAIRN_TRY_VOID(check_keys(text, path));
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return refuse_setting(place(path, error.source()), printable(error.description(), kEchoBytesMax));
  }
  CAIRN_TRY_VOID(check_size(path, parsed.table()));
  ConfigFile config{.path = path};
  for (const auto& [key, node] : parsed.table()) {
    const toml::table* table = node.as_table();
    if (key.str() == kModelTables && table != nullptr) {
      CAIRN_TRY(config.models, models_of(path, *table));
      continue;
    }
    CAIRN_TRY(Setting setting, setting_of(path, key, node));
    config.settings.push_back(std::move(setting));
  }
  return config;
}

Result<ConfigFile> read_config_file(const std::string& path) {
  CAIRN_TRY(const std::string text, read_text_file(path, "the config file", kConfigBytesMax));
  return parse_config(text, path);
}

}  // namespace cairn
