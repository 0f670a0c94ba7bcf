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

  /// Tokens of a conversation; of a model that is not loaded what it was trained for, or 0.
  int64_t context() const { return loaded != nullptr ? loaded->engine->context_tokens() : context_tokens; }
  /// A text as long as Ollama's SHA-256, which it is where Ollama has the file.
  std::string sha256() const;
};

/// The models that the scope shows; no other is found either.
std::vector<ListedModel> list_models(const Service& service, const loader::ModelScope& scope);
/// The model of one of its names. Error: kNotFound, listing the names that there are.
Result<ListedModel> find_listed(const Service& service, std::string_view name, const loader::ModelScope& scope);

/// 7.6B, 656K: a number of parameters, as Ollama and LM Studio write it.
std::string human_number(int64_t number);

}  // namespace cairn::api
