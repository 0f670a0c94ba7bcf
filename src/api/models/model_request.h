/// What a request says of the model that is to answer it, read before the rest; and which model that has become.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "loader/catalog/description.h"
#include "loader/model_manager.h"
#include "loader/registry.h"

namespace cairn::api {

struct ModelRequest {
  std::string model;
  std::optional<KeepAlive> keep_alive;  ///< Ollama's field
  bool stream = false;
  bool asks_nothing = false;  ///< neither a prompt nor messages: Ollama's clients load and unload models so
};

/// Reads these members of a JSON object, wherever else it is wrong: that is for the endpoint to say. `ollama`: a
/// request streams where it does not say. Errors: kInvalidArgument (keep_alive is no time).
Result<ModelRequest> read_model_request(std::string_view body, bool ollama);

/// A number of seconds, or "5m", "1h30m", "300ms"; below zero: no limit. Source: Ollama's API, and the
/// durations of Go. nullopt: it is none of those.
std::optional<KeepAlive> parse_keep_alive(std::string_view text);

/// Ollama's field, null or "" for what says nothing (nullopt). Error: kInvalidArgument, it is no time.
Result<std::optional<KeepAlive>> read_keep_alive(const nlohmann::ordered_json& value);

/// The kind of model that answers an endpoint's requests; nullopt: none does.
std::optional<ModelKind> kind_for_path(std::string_view path);

/// While this exists, the requests that this thread reads are answered by this model (Service::find_model).
class AnsweringModel {
 public:
  AnsweringModel(SharedModel model, std::optional<KeepAlive> keep_alive);
  ~AnsweringModel();
  AnsweringModel(const AnsweringModel&) = delete;
  AnsweringModel& operator=(const AnsweringModel&) = delete;

  /// Null: there is none on this thread.
  static const AnsweringModel* current();
  const SharedModel& model() const { return model_; }
  /// That the request gives.
  const std::optional<KeepAlive>& keep_alive() const { return keep_alive_; }

 private:
  const SharedModel model_;
  const std::optional<KeepAlive> keep_alive_;
  const AnsweringModel* const outer_;
};

}  // namespace cairn::api
