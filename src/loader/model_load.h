/// The way from a model's file to a model that is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "loader/load_options.h"
#include "loader/loaded_model.h"

namespace cairn::loader {

/// A model's file on its way to being loaded.
class ModelLoad {
 public:
  /// Reads its header and tokenizer. Errors: those of the parts.
  static Result<ModelLoad> open(const std::filesystem::path& path, const LoadOptions& options);
  /// Reads its header alone, for plans: without a draft model, and on the processor. Errors: those of the parts.
  static Result<ModelLoad> open_header(const std::filesystem::path& path, const LoadOptions& options);
  ModelLoad(ModelLoad&& other) noexcept;
  ~ModelLoad();

  /// Chooses the device and divides its memory, of which the model may take `host_bytes_max` of the machine's, where
  /// others give `freed` of it back first. May be called again. Valid until then. Errors: kOutOfMemory says how much is
  /// needed and how much there is.
  Result<const MemoryPlan*> plan(int64_t host_bytes_max, int64_t freed = 0);
  /// Positions of a conversation by the last plan.
  int64_t context_tokens() const;
  /// Bytes of the machine's memory by the last plan.
  int64_t host_bytes() const;
  /// Reads the weights and starts the engine by the last plan, which is logged. Once. Errors: those of the parts.
  Result<std::unique_ptr<LoadedModel>> load() &&;

 private:
  struct State;
  explicit ModelLoad(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Opens, plans memory (logged: weights, KV, scratch, what is left), loads and starts the engine. Errors: those of the
/// parts; kOutOfMemory says how much is needed and how much there is.
Result<std::unique_ptr<LoadedModel>> load_model_file(const std::filesystem::path& path, const LoadOptions& options);

/// The same as LoadedModel::facts, of a model that is not loaded: reads the header, the tokenizer and the template.
/// Errors: those of the parts.
Result<ModelFacts> read_model_facts(const std::filesystem::path& path, const LoadOptions& options);

}  // namespace cairn::loader
