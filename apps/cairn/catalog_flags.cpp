#include "catalog_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>

#include "api/models/model_request.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "base/text/printable.h"
#include "help/value_checks.h"
#include "loader/catalog/model_names.h"
#include "loader/memory_plan.h"

namespace cairn {
namespace {

/// Skipped files that the log names.
constexpr size_t kSkippedNamedMax = 20;
constexpr size_t kPathShownMax = 300;

loader::ModelNames names_of(const loader::ServedModel& served) {
  return {served.model.name, served.model.aliases, served.model.kind};
}

}  // namespace

void CatalogFlags::add_to(CLI::App& command) {
  const std::string group = "Models";
  command
      .add_option("--models", folder,
                  "Folder of GGUF files, searched with its subfolders (default: cairn/models in $XDG_DATA_HOME or "
                  "~/.local/share)")
      ->type_name("FOLDER")
      ->group(group);
  command
      .add_flag("--own-models", own_only,
                "Leave out the models that Hugging Face's tools, llama.cpp, Ollama and LM Studio have downloaded")
      ->group(group);
}

std::string CatalogFlags::how_to_add() const {
  const std::string own = models_folder();
  return own.empty() ? "name their folder with --models FOLDER" : "put GGUF files into " + own;
}

loader::Catalog CatalogFlags::scan() const {
  std::vector<loader::ModelPlace> places;
  if (const std::string own = models_folder(); !own.empty()) places.push_back({loader::ModelSource::kOwn, own});
  if (!own_only) std::ranges::move(loader::foreign_places(), std::back_inserter(places));
  const std::filesystem::path cache = loader::default_cache_folder();
  return loader::scan_models(places, cache.empty() ? cache : cache / "descriptions.jsonl");
}

void ManagerFlags::add_to(CLI::App& command) {
  const std::string group = "Several models";
  command
      .add_option(
          "--memory", memory_bytes,
          "Memory for all loaded models together, e.g. 24GiB; the least recently used model is unloaded to make "
          "room (default: what is free at startup)")
      ->transform(byte_size(1))
      ->group(group);
  command
      .add_option_function<std::string>(
          "--idle-unload",
          [this](const std::string& text) {
            idle_unload =
                text == "off" ? loader::KeepAlive{} : api::parse_keep_alive(text).value_or(loader::KeepAlive{});
          },
          "Unload models that have not been used for this time, e.g. 30m; off: never (default: 5m, or off for files "
          "given on the command line)")
      ->check(CLI::Validator(
          [](std::string& text) {
            const bool good = text == "off" || api::parse_keep_alive(text);
            return good ? std::string() : "takes a time such as 30s, 5m or 1h30m, or off, not " + printable(text);
          },
          std::string(kShownMark) + "TIME|off"))
      ->group(group);
  command.add_option("--pin", pins, "Model to load at startup and never to unload; repeatable (default: none)")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--default-model", defaults,
                  "Model for requests that name none, or one that does not exist: one for each kind (chat, embedding, "
                  "reranking); repeatable (default: see docs/models-on-disk.md)")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_flag("--strict-models", strict,
                "Answer requests for a model that does not exist with 404, instead of using a default model")
      ->group(group);
}

loader::ModelManagerOptions ManagerFlags::options(bool from_catalog, size_t files) const {
  loader::ModelManagerOptions options;
  options.strict = strict;
  options.defaults = defaults;
  if (memory_bytes > 0) {
    options.memory_bytes = memory_bytes;
  } else if (from_catalog || files > 1) {
    options.memory_bytes = std::max<int64_t>(0, available_memory_bytes() - loader::kReservedBytes);
  }
  if (!from_catalog) options.idle_unload = loader::KeepAlive{};
  if (idle_unload) options.idle_unload = *idle_unload;
  return options;
}

Result<void> ManagerFlags::pin(std::vector<loader::ServedModel>& models) const {
  const auto find = [&](const std::string& name, std::string_view flag) -> Result<loader::ServedModel*> {
    const auto found = std::ranges::find_if(
        models, [&](const loader::ServedModel& served) { return loader::is_called(names_of(served), name); });
    if (found != models.end()) return &*found;
    std::vector<loader::ModelNames> all;
    for (const loader::ServedModel& served : models) all.push_back(names_of(served));
    return fail(Code::kNotFound, "{} {}: there is no such model; {}", flag, printable(name),
                all.empty() ? "there are none yet" : "the models are " + loader::list_names(all));
  };
  for (const std::string& name : pins) {
    CAIRN_TRY(loader::ServedModel * served, find(name, "--pin"));
    served->pinned = true;
  }
  for (const std::string& name : defaults) CAIRN_TRY_VOID(find(name, "--default-model"));
  return {};
}

void log_skipped(const std::vector<loader::SkippedFile>& skipped) {
  for (size_t i = 0; i < skipped.size() && i < kSkippedNamedMax; ++i)
    log_warning("{} is left out: {}", printable(skipped[i].path.string(), kPathShownMax),
                printable(skipped[i].reason, skipped[i].reason.size()));
  if (skipped.size() > kSkippedNamedMax)
    log_warning("{} more files are left out; cairn list names them", skipped.size() - kSkippedNamedMax);
}

}  // namespace cairn
