// cairn config: checks a config file of `cairn serve`, and shows which values it would have from where.
#include <memory>

#include "base/log.h"
#include "commands.h"
#include "config/settings.h"
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
  print("{}: {} settings, {} models: all is well\n", path, config->settings.size(), config->models.size());
  return 0;
}

int show_config(CLI::App& command, const std::string& path) {
  SettingSources sources;
  const auto config = configure(command, path, sources);
  if (!config) return report(config.error());
  print_text(settings_text(command, sources));
  for (const ConfigFile::Model& model : config->models) print("# [model.\"{}\"]: {}\n", model.name, model.where);
  return 0;
}

}  // namespace

void add_config(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("config", "Check a config file of cairn serve, or show what it would do");
  command->require_subcommand(1);
  auto* check = command->add_subcommand("check", "Say what is wrong in a config file, each with its line");
  auto path = std::make_shared<std::string>();
  check->add_option("FILE", *path, "Config file (TOML)")->required();
  check->callback([path, &exit_code] { exit_code = check_config(*path); });
  auto* show = command->add_subcommand(
      "show", "Show the values that cairn serve would have with these flags, and where each is from");
  add_serve_options(*show);
  show->final_callback([show, &exit_code] {
    const auto* option = show->get_option_no_throw("--config");
    exit_code = show_config(*show, option->count() > 0 ? option->as<std::string>() : std::string());
  });
}

}  // namespace cairn
