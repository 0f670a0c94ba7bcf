// cairn config: checks a config file of `cairn serve`, and shows which values it would have from where.
#include <memory>

#include "base/log.h"
#include "commands.h"
#include "config/settings.h"
#include "help/help_format.h"
#include "output.h"
#include "serve/model_flags.h"

namespace cairn {
namespace {

/// Every problem on a line of its own.
int check_config(const std::string& path) {
  const auto config = read_config_file(path);
  if (!config) return report(config.error());
  CLI::App serve;
  add_serve_options(serve);
  SettingSources sources;
  std::vector<std::string> wrong = apply_settings(serve, config->settings, sources);
  const auto in_tables = check_model_tables(*config);
  wrong.insert(wrong.end(), in_tables.begin(), in_tables.end());
  for (const std::string& problem : wrong) report({Code::kInvalidArgument, problem, {}});
  if (!wrong.empty()) return kExitFailed;
  print("{}: {} settings, {} models: no mistakes found\n", path, config->settings.size(), config->models.size());
  return 0;
}

int show_config(CLI::App& command, const std::string& path, ShownSettings shown) {
  SettingSources sources;
  const auto config = configure(command, path, sources);
  if (!config) return report(config.error());
  print_text(settings_text(command, sources, shown));
  for (const ConfigFile::Model& model : config->models) print("# [model.\"{}\"]: {}\n", model.name, model.where);
  return 0;
}

}  // namespace

void add_config(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("config", "Check a config file of cairn serve, or show the settings in force");
  set_help(*command, "cairn config check cairn.toml");
  auto* check = command->add_subcommand("check", "Name every mistake in a config file, with its line");
  set_help(*check, "cairn config check cairn.toml");
  auto path = std::make_shared<std::string>();
  check->add_option("FILE", *path, "Config file (TOML)")->required();
  check->callback([path, &exit_code] { exit_code = check_config(*path); });
  auto* show = command->add_subcommand(
      "show", "Show the settings that cairn serve would use with the same flags, and where each comes from");
  set_help(*show, "cairn config show --config cairn.toml --port 9000", {"--help", "--config", "--all"});
  auto all = std::make_shared<bool>(false);
  show->add_flag("--" + std::string(kAllSettings), *all,
                 "All settings with what each does and its default, not only those that are set");
  add_serve_options(*show);
  show->final_callback([show, all, &exit_code] {
    const auto* option = show->get_option_no_throw("--config");
    exit_code = show_config(*show, option->count() > 0 ? option->as<std::string>() : std::string(),
                            *all ? ShownSettings::kAll : ShownSettings::kSet);
  });
}

}  // namespace cairn
