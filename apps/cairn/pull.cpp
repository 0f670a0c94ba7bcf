// cairn pull, cairn rm: models from the hubs, and away again.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "catalog_flags.h"
#include "commands.h"
#include "gguf/model_folder.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "loader/catalog/made_model.h"
#include "loader/catalog/model_names.h"
#include "output.h"
#include "pull_flags.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr size_t kModelPathShownMax = 400;

struct PullFlags {
  std::string name;
  std::string models;
  bool projector = false;
  int64_t memory_bytes = 0;
};

Result<void> pull(const PullFlags& flags) {
  CAIRN_TRY(const hub::ModelName name, hub::parse_model_name(flags.name));
  CAIRN_TRY(hub::PullOptions options, pull_options(flags.models));
  options.projector = flags.projector;
  if (flags.memory_bytes > 0) options.memory_bytes = flags.memory_bytes;
  CAIRN_TRY(const auto paths, pull_shown(name, options));
  for (const fs::path& path : paths) print("{}\n", path.string());
  return {};
}

/// Why a model that is not in the folder of those that were pulled cannot be deleted.
Error not_deleted(const PullFlags& flags, const fs::path& folder, const std::string& reason) {
  CatalogFlags catalog;
  catalog.folder = folder.string();
  const std::vector<loader::CatalogModel> models = catalog.scan().models;
  std::vector<loader::ModelNames> names;
  for (const loader::CatalogModel& model : models) names.push_back({model.name, model.aliases, model.kind});
  const auto found = loader::find_by_whole_name(names, flags.name, loader::ModelKind::kChat);
  if (!found || !*found) {
    return {Code::kNotFound,
            fmt::format("{}{}; cairn list shows what is here", reason, loader::names_like_hint(names, flags.name)),
            {}};
  }
  const loader::CatalogModel& model = models[**found];
  const std::string path = printable(model.path.string(), kModelPathShownMax);
  if (gguf::pulled_name(model.path.lexically_relative(folder)))
    return {Code::kNotFound, fmt::format("{}; did you mean {}?", reason, printable(model.name)), {}};
  if (model.source == loader::ModelSource::kOwn)
    return {
        Code::kInvalidArgument, fmt::format("{} was not pulled: delete its file yourself, {}", model.name, path), {}};
  return {Code::kInvalidArgument,
          fmt::format("{} is of another program ({}), whose own commands delete it; its file is {}", model.name,
                      loader::source_name(model.source), path),
          {}};
}

Result<void> remove(const PullFlags& flags) {
  CAIRN_TRY(const hub::PullOptions options, pull_options(flags.models));
  CAIRN_TRY(const bool made, loader::remove_made(options.folder, flags.name));
  if (made) {
    print("deleted {}, which was made of another model\n", flags.name);
    return {};
  }
  const auto name = hub::parse_model_name(flags.name);
  if (!name) return std::unexpected(not_deleted(flags, options.folder, name.error().message));
  const auto removed = hub::remove_pulled(*name, options.folder);
  if (!removed && removed.error().code == Code::kNotFound)
    return std::unexpected(not_deleted(flags, options.folder, removed.error().message));
  if (!removed) return std::unexpected(removed.error());
  for (const fs::path& path : removed->files) print("deleted {}\n", path.string());
  print("{} are free again\n", bytes_text(removed->bytes));
  return {};
}

}  // namespace

void add_pull(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("pull", "Download a model. It prints the paths of its files");
  auto flags = std::make_shared<PullFlags>();
  set_help(*command, "cairn pull qwen3:4b");
  command->add_option("NAME", flags->name, std::string(kNameHelp))->required();
  add_models_flag(*command, flags->models);
  command->add_flag("--mmproj", flags->projector, "Download the model's vision projector, too");
  command
      ->add_option("--memory", flags->memory_bytes,
                   "Memory that the model may use, which decides the quantisation (default: what is free now)")
      ->transform(byte_size(1));
  command->callback([flags, &exit_code] {
    if (const auto done = pull(*flags); !done) exit_code = report(done.error());
  });
}

void add_rm(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("rm", "Delete a downloaded or created model, and the rest of an unfinished download");
  set_help(*command, "cairn rm qwen3:4b");
  auto flags = std::make_shared<PullFlags>();
  command->add_option("NAME", flags->name, "The name that cairn pull was given, or that of a created model")
      ->required();
  add_models_flag(*command, flags->models);
  command->callback([flags, &exit_code] {
    if (const auto done = remove(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
