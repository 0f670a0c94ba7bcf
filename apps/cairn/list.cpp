// cairn list: the models that lie on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/model_list.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "catalog_flags.h"
#include "commands.h"
#include "help/help_format.h"
#include "load_flags.h"
#include "output.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownPathMax = 400;

struct ListFlags {
  CatalogFlags catalog;
  bool json = false;
};

ordered_json to_json(const loader::CatalogModel& model) {
  ordered_json value = {{"name", model.name},
                        {"aliases", model.aliases},
                        {"kind", loader::kind_name(model.kind)},
                        {"architecture", model.architecture},
                        {"quantization", model.quantisation},
                        {"parameters", model.parameters},
                        {"context_length", model.context_tokens},
                        {"size_bytes", model.file_bytes},
                        {"source", loader::source_name(model.source)},
                        {"path", model.path.string()},
                        {"runs", model.usable()}};
  if (model.made != nullptr) value["base"] = model.made->base;
  if (!model.usable()) value["reason"] = model.unusable;
  return value;
}

std::string as_json(const loader::Catalog& catalog) {
  ordered_json value = {{"models", ordered_json::array()}, {"skipped", ordered_json::array()}};
  for (const loader::CatalogModel& model : catalog.models) value["models"].push_back(to_json(model));
  for (const loader::SkippedFile& file : catalog.skipped)
    value["skipped"].push_back({{"path", file.path.string()}, {"reason", file.reason}});
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string as_table(const loader::Catalog& catalog) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "KIND", "ARCHITECTURE", "SIZE", "TYPE", "FILE", "WHERE"}};
  for (const loader::CatalogModel& model : catalog.models) {
    rows.push_back({printable(model.name, kShownPathMax), std::string(loader::kind_name(model.kind)),
                    printable(model.architecture), api::human_number(model.parameters), model.quantisation,
                    bytes_text(model.file_bytes), printable(model.path.string(), kShownPathMax)});
  }
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) text += fmt::format("{:<{}}  ", rows[r][i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
    if (r > 0 && !catalog.models[r - 1].usable())
      text += fmt::format("  cannot be run: {}\n", printable(catalog.models[r - 1].unusable, kShownPathMax));
  }
  return text;
}

void run_list(const ListFlags& flags) {
  const loader::Catalog catalog = flags.catalog.scan();
  if (flags.json) {
    print_text(as_json(catalog));
    return;
  }
  if (!catalog.models.empty()) {
    print_text(as_table(catalog));
  } else {
    print("There are no models yet: {}\n", flags.catalog.how_to_add());
  }
  for (const loader::SkippedFile& file : catalog.skipped)
    fmt::print(stderr, "left out: {}: {}\n", printable(file.path.string(), kShownPathMax),
               printable(file.reason, file.reason.size()));
}

}  // namespace

void add_list(CLI::App& app, int&) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* command =
      app.add_subcommand("list", "List the models on this machine, including those that other programs downloaded");
  command->alias("ls");
  set_help(*command, "cairn list");
  flags->catalog.add_to(*command);
  command->add_flag("--json", flags->json, "Print JSON, for programs");
  add_log_flag(*command);
  command->callback([flags] { run_list(*flags); });
}

}  // namespace cairn
