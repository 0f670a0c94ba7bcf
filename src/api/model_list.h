/// The models that a server tells of: those that it can load, with what is known of them before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"

namespace cairn::api {

struct ListedModel : loader::CatalogModel {
  loader::ModelState state = loader::ModelState::kLoaded;
  loader::SharedModel loaded;  ///< null unless it is
  std::string error;           ///< why it could not be loaded the last time, or cannot be; empty: nothing is known
  bool pinned = false;
  std::optional<std::chrono::system_clock::time_point> expires{};  ///< see ModelStatus
  int64_t served_context = 0;                   ///< tokens of a conversation that it has, or that loading it would give
  std::optional<loader::ModelStatus> status{};  ///< with a manager of models
  /// A text as long as Ollama's SHA-256, which it is where Ollama has the file.
  std::string sha256() const;
};

/// Whether files are read for what is not known of models yet, which takes time: not on the server's thread.
enum class Reading { kNothing, kHeaders };

/// The models that the scope shows; no other is found either.
std::vector<ListedModel> list_models(const Service& service, const loader::ModelScope& scope, Reading reading);
/// The model of one of its names; without a name the only one. Error: kNotFound, listing the names that there are.
Result<ListedModel> find_listed(const Service& service, std::string_view name, const loader::ModelScope& scope,
                                Reading reading);
/// The model that would answer a chat which names it so. Errors: those of Registry::find and ModelManager::choose.
Result<ListedModel> find_meant(const Service& service, std::string_view name, const loader::ModelScope& scope,
                               Reading reading);
/// What its file says but for its weights. Reads that of a model that is not loaded, the first time. Errors: the
/// file's.
Result<std::shared_ptr<const loader::ModelFacts>> facts_of(const Service& service, const ListedModel& model);
/// Whether nothing needs to be read for a list of the models.
bool knows_models(const Service& service, const loader::ModelScope& scope);
/// Whether the model of that name, or the default for chats if that is empty, is loaded.
bool is_loaded(const Service& service, std::string_view name, const loader::ModelScope& scope);

/// 7.6B, 656K: a number of parameters, as Ollama and LM Studio write it.
std::string human_number(int64_t number);

}  // namespace cairn::api
