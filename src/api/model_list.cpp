#include "api/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "loader/catalog/model_names.h"
#include "loader/model_files.h"

namespace cairn::api {
namespace {

ListedModel listed(const loader::SharedModel& loaded) {
  ListedModel model;
  model.name = loaded->name;
  model.aliases = loaded->aliases;
  model.path = loaded->file_name;
  model.source = loader::ModelSource::kGiven;
  if (auto described = loader::describe_model(loaded->file))
    static_cast<loader::ModelSummary&>(model) = *std::move(described);
  model.architecture = loaded->architecture;
  model.modified_unix_s = loaded->created_unix_s;
  model.loaded = loaded;
  model.pinned = true;
  model.served_context = loaded->engine->context_tokens();
  return model;
}

ListedModel listed(const Service& service, loader::ModelStatus&& status, Reading reading) {
  ListedModel model;
  static_cast<loader::CatalogModel&>(model) = status.model();
  model.state = status.state;
  model.loaded = status.loaded;
  model.error = model.usable() ? status.error : model.unusable;
  model.pinned = status.served->pinned;
  model.expires = status.expires;
  const bool knows = status.loaded != nullptr || status.context_tokens || reading == Reading::kHeaders;
  model.served_context = knows ? service.models()->context_tokens(status) : model.context_tokens;
  model.status = std::move(status);
  return model;
}

}  // namespace

std::string ListedModel::sha256() const {
  if (!digest.empty()) return digest;
  // All of the file would have to be read for its own.
  const std::string content = fmt::format("{} {} {}", path.filename().string(), file_bytes, modified_unix_s);
  std::string hex;
  for (uint64_t part = 0; part < 4; ++part) hex += fmt::format("{:016x}", hash64(content, part));
  return hex;
}

std::vector<ListedModel> list_models(const Service& service, const loader::ModelScope& scope, Reading reading) {
  std::vector<ListedModel> list;
  if (service.models() == nullptr) {
    for (const loader::SharedModel& model : service.registry().list(scope)) list.push_back(listed(model));
  } else {
    for (loader::ModelStatus& status : service.models()->list(scope))
      list.push_back(listed(service, std::move(status), reading));
  }
  return list;
}

std::string human_number(int64_t number) {
  struct Unit {
    double size;
    std::string_view name;
  };
  constexpr Unit kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  for (const Unit& unit : kUnits) {
    const double count = static_cast<double>(number) / unit.size;
    if (count >= 10) return fmt::format("{:.0f}{}", count, unit.name);
    if (count >= 1) return fmt::format("{:.1f}{}", count, unit.name);
  }
  return fmt::format("{}", number);
}

Result<ListedModel> find_listed(const Service& service, std::string_view name, const loader::ModelScope& scope,
                                Reading reading) {
  if (service.models() != nullptr) {
    std::vector<loader::ModelStatus> all = service.models()->list(scope);
    if (name.empty() && all.size() == 1) {
      if (all.front().loaded != nullptr) CAIRN_TRY_VOID(all.front().loaded->files->check());
      return listed(service, std::move(all.front()), reading);
    }
    CAIRN_TRY(loader::ModelStatus status, service.models()->find_exactly(name, scope));
    if (status.loaded != nullptr) CAIRN_TRY_VOID(status.loaded->files->check());
    return listed(service, std::move(status), reading);
  }
  auto found = service.registry().find_exactly(name, scope);
  if (!found && name.size() > loader::kLatestTag.size() && name.ends_with(loader::kLatestTag))
    found = service.registry().find_exactly(name.substr(0, name.size() - loader::kLatestTag.size()), scope);
  if (!found) return std::unexpected(found.error());
  return listed(*found);
}

Result<ListedModel> find_meant(const Service& service, std::string_view name, const loader::ModelScope& scope,
                               Reading reading) {
  if (service.models() == nullptr) {
    CAIRN_TRY(const loader::SharedModel model, service.registry().find(name, scope));
    return listed(model);
  }
  CAIRN_TRY(const loader::ModelChoice choice, service.models()->choose(name, loader::ModelKind::kChat, scope));
  return find_listed(service, choice.name, scope, reading);
}

Result<std::shared_ptr<const loader::ModelFacts>> facts_of(const Service& service, const ListedModel& model) {
  if (model.status) return service.models()->facts(*model.status);
  return std::make_shared<const loader::ModelFacts>(model.loaded->facts());
}

bool knows_models(const Service& service, const loader::ModelScope& scope) {
  if (service.models() == nullptr) return true;
  return std::ranges::all_of(service.models()->list(scope), [](const loader::ModelStatus& status) {
    return status.loaded != nullptr || status.context_tokens.has_value();
  });
}

bool is_loaded(const Service& service, std::string_view name, const loader::ModelScope& scope) {
  const auto meant = name.empty() ? find_meant(service, name, scope, Reading::kNothing)
                                  : find_listed(service, name, scope, Reading::kNothing);
  return meant && meant->loaded != nullptr;
}

}  // namespace cairn::api
