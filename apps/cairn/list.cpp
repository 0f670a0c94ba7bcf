// cairn list: the models that lie on this machine.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/model_list.h"
#include "base/system/machine.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "catalog_flags.h"
#include "commands.h"
#include "first_model.h"
#include "help/help_format.h"
#include "load_flags.h"
#include "loader/fit.h"
#include "output.h"
#include "table_text.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownPathMax = 400;

struct ListFlags {
  CatalogFlags catalog;
  bool json = false;
};

/// Whether the model fits beside what runs now: "yes", "tight", "no: 3.4 GiB short", "-" where that is not known.
std::string fit_text(const loader::CatalogModel& model, int64_t available) {
  if (model.memory_bytes == 0) return "-";
  const int64_t missing = loader::missing_bytes(model.memory_bytes, available);
  const auto name = loader::fit_name(loader::fit_of(model.memory_bytes, available));
  return missing > 0 ? fmt::format("{}: {} short", name, bytes_text(missing)) : std::string(name);
}

ordered_json to_json(const loader::CatalogModel& model, int64_t available) {
  ordered_json value = {{"name", model.name},
                        {"aliases", model.aliases},
                        {"kind", loader::kind_name(model.kind)},
                        {"architecture", model.architecture},
                        {"quantization", model.quantisation},
                        {"parameters", model.parameters},
                        {"context_length", model.context_tokens},
                        {"size_bytes", model.file_bytes},
                        {"memory_bytes", nullptr},
                        {"fits", nullptr},
                        {"source", loader::source_name(model.source)},
                        {"path", model.path.string()},
                        {"runs", model.usable()}};
  if (model.memory_bytes > 0) {
    value["memory_bytes"] = model.memory_bytes;
    value["fits"] = loader::fit_name(loader::fit_of(model.memory_bytes, available));
  }
  if (model.made != nullptr) value["base"] = model.made->base;
  if (!model.usable()) value["reason"] = model.unusable;
  return value;
}

std::string as_json(const loader::Catalog& catalog) {
  const int64_t available = available_memory_bytes();
  ordered_json value = {
      {"models", ordered_json::array()}, {"skipped", ordered_json::array()}, {"available_bytes", available}};
  for (const loader::CatalogModel& model : catalog.models) value["models"].push_back(to_json(model, available));
  for (const loader::SkippedFile& file : catalog.skipped)
    value["skipped"].push_back({{"path", file.path.string()}, {"reason", file.reason}});
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string as_table(const loader::Catalog& catalog) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "KIND", "ARCHITECTURE", "SIZE", "TYPE", "FILE", "FITS", "WHERE"}};
  const int64_t available = available_memory_bytes();
  for (const loader::CatalogModel& model : catalog.models) {
    rows.push_back({printable(model.name, kShownPathMax), std::string(loader::kind_name(model.kind)),
                    printable(model.architecture), api::human_number(model.parameters), model.quantisation,
                    bytes_text(model.file_bytes), fit_text(model, available),
                    printable(model.path.string(), kShownPathMax)});
  }
  const std::vector<std::string> lines = table_lines(rows);
  std::string text;
  for (size_t r = 0; r < lines.size(); ++r) {
    text += lines[r] + "\n";
    if (r > 0 && !catalog.models[r - 1].usable())
      text += fmt::format("  cannot be run: {}\n", printable(catalog.models[r - 1].unusable, kShownPathMax));
  }
  return text;
}

/// What there is to do where there are no models, and a model to begin with, if one is chosen.
Result<void> offer_first_model(const ListFlags& flags, int& exit_code) {
  print("There are no models yet: {}, or get one of those that fit this machine:\n", flags.catalog.how_to_add());
  CAIRN_TRY(const std::string file, FirstModels().offer("leave", flags.catalog.folder));
  if (!file.empty()) return talk_to_file(file, exit_code);
  return {};
}

Result<void> run_list(const ListFlags& flags, int& exit_code) {
  const loader::Catalog catalog = flags.catalog.scan();
  if (flags.json) {
    print_text(as_json(catalog));
    return {};
  }
  if (!catalog.models.empty()) print_text(as_table(catalog));
  for (const loader::SkippedFile& file : catalog.skipped)
    fmt::print(stderr, "left out: {}: {}\n", printable(file.path.string(), kShownPathMax),
               printable(file.reason, file.reason.size()));
  return catalog.models.empty() ? offer_first_model(flags, exit_code) : Result<void>();
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* command =
      app.add_subcommand("list", "List the models on this machine, including those that other programs downloaded");
  command->alias("ls");
  set_help(*command, "cairn list");
  flags->catalog.add_to(*command);
  command->add_flag("--json", flags->json, "Print JSON, for programs");
  add_log_flag(*command);
  command->callback([flags, &exit_code] {
    if (const auto done = run_list(*flags, exit_code); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
