/// Flags of all subcommands that run a model, and of those that sample from it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "loader/registry.h"
#include "sampling/sampler.h"

namespace cairn {

/// The type named "f32", "f16", "bf16" or "q8_0".
KvType kv_type_named(std::string_view name);
/// Adds --kv-type, which takes one of these names.
void add_kv_type_flag(CLI::App& command, std::string& kv_type);
/// Adds --no-rounding, which clears ModelOptions::simulate_rounding.
void add_rounding_flag(CLI::App& command, bool& simulate_rounding);

struct LoadFlags {
  std::string model;  ///< path of the file
  std::string chat_template_file;
  std::string kv_type = "f16";
  LoadOptions options;

  void add_to(CLI::App& command, bool model_required);
  Result<std::unique_ptr<LoadedModel>> load() const;
};

struct SamplingFlags {
  SamplingParams params;
  bool has_seed = false;

  void add_to(CLI::App& command);
  /// The parameters, with a random seed if none was given.
  SamplingParams finish() const;
};

/// Warns if conversations with the model will be rendered with a template that is not its own.
void warn_without_template(const LoadedModel& model);

/// Rejects the empty text, for options whose absence has another meaning.
CLI::Validator not_empty();

/// Adds --log-level, for commands that log.
void add_log_flag(CLI::App& command);

/// Adds --gpu-layers, as in LoadOptions.
void add_gpu_flag(CLI::App& command, int32_t& gpu_layers);

}  // namespace cairn
