// cairn show: what a model is and can do, as its file and what was made of it say.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/model_list.h"
#include "api/ollama/create.h"
#include "api/ollama/models.h"
#include "api/params/generation_defaults.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "loader/model_load.h"
#include "model_argument.h"
#include "output.h"
#include "table_text.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kTextShownMax = 400;
constexpr size_t kSystemBytesMax = 1'000;

struct ShowFlags {
  std::string model;
  bool license = false;
  bool modelfile = false;
  bool parameters = false;
  bool system = false;
  bool chat_template = false;
};

/// A model and what is read of its file.
struct ShownModel {
  api::ListedModel listed;
  gguf::Reader file;
  std::optional<loader::ModelFacts> facts;  ///< nullopt: it cannot be run
};

Result<ShownModel> open_model(const std::string& name) {
  CAIRN_TRY(loader::CatalogModel found, find_model(name, {.made = true}));
  if (found.name.empty()) {
    CAIRN_TRY(found, loader::describe_file(found.path));
  }
  CAIRN_TRY(gguf::Reader file, gguf::Reader::open(found.path));
  loader::LoadOptions options;
  if (found.made != nullptr) options.chat_template = found.made->chat_template;
  ShownModel shown{.listed = {}, .file = std::move(file), .facts = {}};
  if (auto facts = loader::read_model_facts(found.path, options)) shown.facts = *std::move(facts);
  static_cast<loader::CatalogModel&>(shown.listed) = std::move(found);
  return shown;
}

std::string licenses_of(const ShownModel& shown) {
  if (const auto& made = shown.listed.made; made != nullptr && !made->licenses.empty())
    return fmt::format("{}", fmt::join(made->licenses, "\n"));
  for (const char* key : {"general.license", "general.license.name"})
    if (const auto license = shown.file.metadata().string(key); license && !license->empty())
      return std::string(*license);
  return {};
}

/// What was made of the model, and what its file recommends besides.
Rows parameters_of(const ShownModel& shown) {
  Rows rows;
  const auto add = [&](const std::string& name, const ordered_json& value) {
    rows.push_back({printable(name), value.dump(-1, ' ', false, ordered_json::error_handler_t::replace)});
  };
  ordered_json made = shown.listed.made == nullptr ? ordered_json::object() : shown.listed.made->parameters;
  for (const auto& [name, value] : made.items()) {
    if (!value.is_array()) add(name, value);
    if (value.is_array())
      for (const ordered_json& each : value) add(name, each);
  }
  const sampling::GivenParameters recommended = api::recommended_by(shown.file.metadata());
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    const std::string name(parameter.name);
    const auto value = recommended.get(name);
    if (value && !made.contains(name) && !made.contains(std::string(parameter.alias)))
      rows.push_back({name, parameter.value_text(*value)});
  }
  return rows;
}

Rows model_rows(const ShownModel& shown) {
  const api::ListedModel& model = shown.listed;
  Rows rows = {{"architecture", printable(model.architecture)},
               {"parameters", api::human_number(model.parameters)},
               {"context length", model.context_tokens > 0 ? std::to_string(model.context_tokens) : "not said"},
               {"embedding length", std::to_string(model.width)},
               {"quantization", model.quantisation},
               {"kind", std::string(loader::kind_name(model.kind))},
               {"size", bytes_text(model.file_bytes)},
               {"file", printable(model.path.string(), kTextShownMax)}};
  if (model.made != nullptr) rows.push_back({"made of", printable(model.made->base, kTextShownMax)});
  if (model.made != nullptr && !model.made->adapters.empty())
    rows.push_back({"adapters", printable(fmt::format("{}", fmt::join(model.made->adapters, ", ")), kTextShownMax)});
  if (!model.usable()) rows.push_back({"cannot be run", printable(model.unusable, kTextShownMax)});
  return rows;
}

/// A section with its rows; nothing without rows.
std::string section(const char* title, const Rows& rows) {
  std::string text;
  for (const std::string& line : table_lines(rows)) text += fmt::format("    {}\n", line);
  return text.empty() ? text : fmt::format("  {}\n{}\n", title, text);
}

std::string all_of(const ShownModel& shown) {
  Rows can;
  if (shown.facts)
    for (const std::string_view each : api::ollama::capabilities(shown.listed, *shown.facts))
      can.push_back({std::string(each)});
  std::string text =
      section("Model", model_rows(shown)) + section("Capabilities", can) + section("Parameters", parameters_of(shown));
  if (const auto& made = shown.listed.made; made != nullptr && !made->system.empty())
    text += section("System", {{printable(made->system, kSystemBytesMax)}});
  const std::string license = licenses_of(shown);
  if (!license.empty()) text += section("License", {{printable(license.substr(0, license.find('\n')), kTextShownMax)}});
  return text;
}

Result<void> show_model(const ShowFlags& flags) {
  set_log_level(LogLevel::kWarning);
  CAIRN_TRY(const ShownModel shown, open_model(flags.model));
  std::string text;
  if (flags.license) {
    text = licenses_of(shown);
  } else if (flags.modelfile) {
    text = api::ollama::modelfile_of(shown.listed);
  } else if (flags.parameters) {
    for (const std::string& line : table_lines(parameters_of(shown))) text += line + "\n";
  } else if (flags.system) {
    text = shown.listed.made == nullptr ? "" : shown.listed.made->system;
  } else if (flags.chat_template) {
    text = shown.facts ? shown.facts->template_source : "";
  } else {
    text = all_of(shown);
  }
  return show(text.empty() || text.ends_with('\n') ? text : text + "\n");
}

}  // namespace

void add_show(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "show", "Show what a model is and can do: architecture, size, context, capabilities, parameters, licence");
  set_help(*command, "cairn show qwen3:4b");
  auto flags = std::make_shared<ShowFlags>();
  command->add_option("MODEL", flags->model, kModelHelp)->required();
  auto* parts = command->add_option_group("part", "Print only one part");
  parts->add_flag("--license", flags->license, "The licence that the file names");
  parts->add_flag("--modelfile", flags->modelfile, "A Modelfile that creates the same model");
  parts->add_flag("--parameters", flags->parameters,
                  "The parameters of a created model, and those that the file recommends");
  parts->add_flag("--system", flags->system, "The system message of a created model");
  parts->add_flag("--template", flags->chat_template, "The chat template");
  parts->require_option(0, 1);
  command->callback([flags, &exit_code] {
    if (const auto done = show_model(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
