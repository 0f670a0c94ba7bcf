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

struct Exchange;

struct ModelRequest {
  std::string model;
  std::optional<loader::KeepAlive> keep_alive;  ///< Ollama's field
  bool stream = false;
  bool asks_nothing = false;  ///< neither a prompt nor messages: Ollama's clients load and unload models so
};

/// Reads these members of a JSON object, wherever else it is wrong: that is for the endpoint to say. `ollama`: a
/// request streams where it does not say. Errors: kInvalidArgument (keep_alive is no time).
Result<ModelRequest> read_model_request(std::string_view body, bool ollama);

/// A number of seconds, or "5m", "1h30m", "300ms"; below zero: no limit. Source: Ollama's API, and the
/// durations of Go. nullopt: it is none of those.
std::optional<loader::KeepAlive> parse_keep_alive(std::string_view text);

/// Ollama's field, null or "" for what says nothing (nullopt). Error: kInvalidArgument, it is no time.
Result<std::optional<loader::KeepAlive>> read_keep_alive(const nlohmann::ordered_json& value);

/// What must be there before an endpoint's handler is called.
struct Needs {
  /// Answers what asks for something else than the model's answer, once it is settled which model is meant and before
  /// that is loaded. False: the request is one for the model. Errors are the request's answer.
  using Instead = Result<bool> (*)(Exchange& exchange, const ModelRequest& request, const std::string& model);

  std::optional<loader::ModelKind> kind{};  ///< a model of this kind, which is loaded for the request; nullopt: none
  bool start = true;                        ///< the server has started: until then it answers 503
  bool ollama = false;                      ///< the request says in Ollama's words which model it is, and for how long
  Instead instead = nullptr;                ///< null: every request is for the model
  /// It is for the model that its ?model=, its path or its body names, which may be there since a moment only.
  bool named = false;
};
inline constexpr Needs kNeedsNothing{.start = false};
inline constexpr Needs kNeedsStart{};
inline constexpr Needs kNeedsNamed{.named = true};
inline constexpr Needs kNeedsChat{.kind = loader::ModelKind::kChat};
inline constexpr Needs kNeedsEmbedding{.kind = loader::ModelKind::kEmbedding};
inline constexpr Needs kNeedsReranking{.kind = loader::ModelKind::kReranking};

}  // namespace cairn::api
