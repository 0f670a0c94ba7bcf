#include "loader/registry.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text/printable.h"
#include "loader/model_files.h"
#include "loader/unloader.h"

namespace cairn::loader {
namespace {

constexpr size_t kNameShownMax = 100;

bool is_called(const LoadedModel& model, std::string_view name) {
  return model.name == name || std::ranges::find(model.aliases, name) != model.aliases.end();
}

}  // namespace

Registry::Registry() : unloader_(std::make_shared<Unloader>()) {}
Registry::~Registry() = default;

bool Registry::loading() const {
  const std::lock_guard lock(mutex_);
  return models_.empty();
}

Result<SharedModel> Registry::add(std::unique_ptr<LoadedModel> model) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names = model->aliases;
  names.push_back(model->name);
  for (const auto& other : models_) {
    for (const std::string& name : names) {
      if (is_called(*other, name))
        return fail(Code::kInvalidArgument, "two models are named {}; give one another name", name);
    }
  }
  models_.push_back(unloader_->share(std::move(model)));
  return models_.back();
}

Result<SharedModel> Registry::find_exactly(std::string_view name, const ModelScope& scope) const {
  std::string names;
  for (const SharedModel& model : list(scope)) {
    if (name.empty() || is_called(*model, name)) {
      CAIRN_TRY_VOID(model->files->check());
      return model;
    }
    names += (names.empty() ? "" : ", ") + model->name;
  }
  if (loading()) return fail(Code::kUnavailable, "the model is still being loaded; try again in a moment");
  if (names.empty()) names = "none that this API key may use";
  return fail_at("model", Code::kNotFound, "there is no model \"{}\"; there is {}", name.substr(0, kNameShownMax),
                 names);
}

Result<SharedModel> Registry::find(std::string_view name, const ModelScope& scope) const {
  auto found = find_exactly(name, scope);
  if (found || found.error().code != Code::kNotFound) return found;
  const auto models = list(scope);
  if (models.size() != 1) return found;
  const SharedModel& only = models.front();
  CAIRN_TRY_VOID(only->files->check());
  note_foreign_name(name, *only);
  return only;
}

void Registry::note_foreign_name(std::string_view name, const LoadedModel& answering) const {
  const std::string shown = printable(name, kNameShownMax);
  {
    const std::lock_guard lock(mutex_);
    if (foreign_names_.size() >= kForeignNamesMax || !foreign_names_.insert(shown).second) return;
  }
  log_warning("requests for the model \"{}\" are answered by {}, the only one here (said once for each name)", shown,
              answering.name);
}

std::vector<SharedModel> Registry::list(const ModelScope& scope) const {
  const std::lock_guard lock(mutex_);
  std::vector<SharedModel> list;
  for (const SharedModel& model : models_) {
    if (scope.shows(model->name, model->aliases)) list.push_back(model);
  }
  return list;
}

bool Registry::remove_idle(const std::weak_ptr<const LoadedModel>& model) {
  SharedModel gone;  // let go of behind the lock
  const std::lock_guard lock(mutex_);
  const auto same = [&](const SharedModel& one) { return !one.owner_before(model) && !model.owner_before(one); };
  const auto found = std::ranges::find_if(models_, same);
  if (found == models_.end() || found->use_count() > 1) return false;
  gone = std::move(*found);
  models_.erase(found);
  return true;
}

size_t Registry::leaving() const {
  const std::lock_guard lock(mutex_);
  return unloader_->alive() - models_.size();
}

bool Registry::remove(const SharedModel& model) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(models_, model);
  if (found == models_.end()) return false;
  std::erase_if(removed_, [](const auto& gone) { return gone.expired(); });
  removed_.push_back(model);
  models_.erase(found);
  return true;
}

void Registry::clear() {
  std::vector<SharedModel> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(models_);
    for (const auto& removed : removed_) {
      if (SharedModel answering = removed.lock()) gone.push_back(std::move(answering));
    }
  }
  for (const SharedModel& model : gone) model->engine->stop();
}

}  // namespace cairn::loader
