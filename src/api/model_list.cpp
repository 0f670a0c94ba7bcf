#include "api/model_list.h"

#include <fmt/format.h>

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
  return model;
}

ListedModel listed(loader::ModelStatus&& status) {
  ListedModel model;
  static_cast<loader::CatalogModel&>(model) = status.model();
  model.state = status.state;
  model.loaded = std::move(status.loaded);
  model.error = model.usable() ? std::move(status.error) : model.unusable;
  model.pinned = status.served->pinned;
  model.expires = status.expires;
  return model;
}

}  // namespace

std::string ListedModel::sha256() const {
  if (!digest.empty()) return digest;
  // The digest is of what names the content; all of the file would have to be read for its own.
  const std::string content = loaded != nullptr ? fmt::format("{:016x}", loaded->fingerprint)
                                                : fmt::format("{} {} {}", name, file_bytes, modified_unix_s);
  std::string hex;
  for (uint64_t part = 0; part < 4; ++part) hex += fmt::format("{:016x}", hash64(content, part));
  return hex;
}

std::vector<ListedModel> list_models(const Service& service, const loader::ModelScope& scope) {
  std::vector<ListedModel> list;
  if (service.models() == nullptr) {
    for (const loader::SharedModel& model : service.registry().list(scope)) list.push_back(listed(model));
  } else {
    for (loader::ModelStatus& status : service.models()->list(scope)) list.push_back(listed(std::move(status)));
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

Result<ListedModel> find_listed(const Service& service, std::string_view name, const loader::ModelScope& scope) {
  if (service.models() != nullptr) {
    std::vector<loader::ModelStatus> all = service.models()->list(scope);
    if (name.empty() && all.size() == 1) {
      if (all.front().loaded != nullptr) CAIRN_TRY_VOID(all.front().loaded->files->check());
      return listed(std::move(all.front()));
    }
    CAIRN_TRY(loader::ModelStatus status, service.models()->find_exactly(name, scope));
    if (status.loaded != nullptr) CAIRN_TRY_VOID(status.loaded->files->check());
    return listed(std::move(status));
  }
  auto found = service.registry().find_exactly(name, scope);
  if (!found && name.size() > loader::kLatestTag.size() && name.ends_with(loader::kLatestTag))
    found = service.registry().find_exactly(name.substr(0, name.size() - loader::kLatestTag.size()), scope);
  if (!found) return std::unexpected(found.error());
  return listed(*found);
}

}  // namespace cairn::api
