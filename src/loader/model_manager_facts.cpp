// What a ModelManager tells of models that are not loaded, as if they were.
#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "loader/model_load.h"
#include "loader/model_manager.h"
#include "loader/registry.h"

namespace cairn::loader {

Result<int64_t> ModelManager::planned_context(const ServedModel& served) const {
  const LoadOptions& options = served.options;
  if (const int32_t asked = options.model.context_tokens; asked > 0) return asked;
  // What fits on GPUs is known once they have the model.
  if (kernels::built_with_cuda() && options.device.gpu_layers != 0) return served.model.context_tokens;
  CAIRN_TRY(ModelLoad opened, ModelLoad::open_header(served.model.path, options));
  int64_t pinned = 0;
  for (const SharedModel& model : registry_.list(kEveryModel)) {
    const auto status = find_exactly(model->name, kEveryModel);
    if (status && status->served->pinned && &status->served->model != &served.model) pinned += model->memory.bytes();
  }
  const int64_t freed = memory_->used() - pinned;
  CAIRN_TRY_VOID(plan_within(opened, memory_->bytes_max() - pinned, freed));
  return opened.context_tokens();
}

std::shared_ptr<ModelManager::Entry> ModelManager::entry_of(const ModelStatus& status) const {
  const auto found = std::ranges::find(entries_, status.served, &Entry::served);
  return found == entries_.end() ? nullptr : *found;
}

void ModelManager::describe_replaced(const Entries& entries) const {
  for (const auto& entry : entries) {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<const ServedModel> served = entry->served;
    if (!entry->loaded.expired()) continue;
    lock.unlock();
    const auto now = FileState::of(served->model.path);
    if (!now || *now == served->model.file_state) continue;
    const auto described = describe_file(served->model.path);
    if (!described) continue;  // loading it will say why
    auto renewed = std::make_shared<ServedModel>(*served);
    CatalogModel& model = renewed->model;
    static_cast<ModelSummary&>(model) = *described;
    model.file_state = described->file_state;
    model.digest.clear();
    if (model.made == nullptr) model.modified_unix_s = described->modified_unix_s;
    lock.lock();
    if (entry->served != served || !entry->loaded.expired()) continue;
    entry->served = std::move(renewed);
    entry->context_tokens.reset();
    entry->facts.reset();
  }
}

int64_t ModelManager::context_tokens(const ModelStatus& status) {
  if (status.loaded != nullptr) return status.loaded->engine->context_tokens();
  if (status.context_tokens) return *status.context_tokens;
  const int64_t trained = status.model().context_tokens;
  const int64_t planned = status.model().usable() ? planned_context(*status.served).value_or(trained) : trained;
  const std::lock_guard lock(mutex_);
  if (const auto entry = entry_of(status)) entry->context_tokens = planned;
  return planned;
}

Result<std::shared_ptr<const ModelFacts>> ModelManager::facts(const ModelStatus& status) {
  if (status.facts != nullptr) return status.facts;
  CAIRN_TRY(ModelFacts read, status.loaded != nullptr ? Result<ModelFacts>(status.loaded->facts())
                                                      : read_model_facts(status.model().path, status.served->options));
  auto facts = std::make_shared<const ModelFacts>(std::move(read));
  const std::lock_guard lock(mutex_);
  if (const auto entry = entry_of(status)) entry->facts = facts;
  return facts;
}

}  // namespace cairn::loader
