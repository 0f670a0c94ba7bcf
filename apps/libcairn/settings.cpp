#include "settings.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "api/params/request_fields.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "config/settings.h"
#include "values.h"

namespace cairn::library {
namespace {

using nlohmann::ordered_json;

constexpr const char* kWhere = "options";

/// A value as it stands on the command line; unset: it is none.
std::optional<std::string> value_text(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (is_any_number(value)) return number_text(value);
  return std::nullopt;
}

Result<Setting> setting_of(const std::string& name, const ordered_json& value) {
  Setting setting{.name = name, .values = {}, .where = kWhere};
  const auto refuse = [&](std::string_view what) {
    return fail_at(name, Code::kInvalidArgument, "{}: {} {}", kWhere, printable(name), what);
  };
  if (value.is_object()) {  // the variables of a template
    setting.values.push_back(json_text(value));
    return setting;
  }
  if (!value.is_array()) {
    const auto text = value_text(value);
    if (!text) return refuse("must be a text, a number, true or false, or a list of them");
    setting.values.push_back(*text);
    return setting;
  }
  if (value.size() > kConfigListMax) return refuse(fmt::format("has more than {} values", kConfigListMax));
  for (const ordered_json& each : value) {
    const auto text = value_text(each);
    if (!text) return refuse("must be a list of texts, numbers, true or false");
    setting.values.push_back(*text);
  }
  if (setting.values.empty()) return refuse("is an empty list; leave it out");
  return setting;
}

}  // namespace

Result<Settings> Settings::read(const std::string& model, const std::string& options) {
  Settings settings;
  std::vector<Setting> given;
  if (!options.empty()) {
    auto object = api::parse_object(options);
    if (!object) return fail_at(kWhere, object.error().code, "{}: {}", kWhere, object.error().message);
    for (const auto& [name, value] : object->items()) {
      if (value.is_null()) continue;
      CAIRN_TRY(Setting setting, setting_of(name, value));
      given.push_back(std::move(setting));
    }
  }
  CLI::App command;
  settings.model.add_to(command);
  settings.requests.add_to(command, {});
  command.add_option("--name", settings.model.load.options.name, "Name of the model in answers");
  refuse_empty_values(command);
  SettingSources sources;
  std::string wrong;
  for (const std::string& problem : apply_settings(command, given, sources))
    wrong += (wrong.empty() ? "" : "; ") + problem;
  if (!wrong.empty()) return fail_at(kWhere, Code::kInvalidArgument, "{}", wrong);
  settings.model.load.model = model;
  CAIRN_TRY(settings.model.load, settings.model.load.found({.made = true}));
  return settings;
}

api::ServiceOptions Settings::service_options() const {
  api::ServiceOptions options = requests.service_options();
  options.defaults = model.load.made.or_else(model.defaults);
  options.page = false;
  return options;
}

MemoryFlags Settings::memory() const {
  const loader::LoadOptions& options = model.load.options;
  MemoryFlags flags;
  if (options.model.context_tokens > 0) flags.contexts = {options.model.context_tokens};
  flags.kv_type = options.model.kv_type;
  flags.sequences = options.sequences;
  flags.sequences_max = options.engine.sequences_max;
  flags.threads = options.device.cpu.threads;
  flags.drafts = options.engine.speculation.tokens_max;
  flags.draft = options.draft_model;
  return flags;
}

}  // namespace cairn::library
