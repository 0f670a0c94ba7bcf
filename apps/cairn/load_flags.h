/// Flags of every subcommand that runs a model, and of those that sample from it.
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

/// "f32", "f16", "bf16" or "q8_0".
KvType kv_type_named(std::string_view name);
/// Adds --kv-type, which takes one of these names.
void add_kv_type_flag(CLI::App& command, std::string& kv_type);
/// Adds --no-rounding, which clears ModelOptions::simulate_rounding.
void add_rounding_flag(CLI::App& command, bool& simulate_rounding);

struct LoadFlags {
  std::string model;  ///< path
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
  /// Draws a seed if none was given.
  SamplingParams finish() const;
};

/// Says so when conversations with the model will be written in a template that is not its own.
void warn_without_template(const LoadedModel& model);

/// For options whose absence means something else than an empty text would.
CLI::Validator not_empty();

/// --log-level, for commands that log.
void add_log_flag(CLI::App& command);

/// --gpu-layers, as LoadOptions has it.
void add_gpu_flag(CLI::App& command, int32_t& gpu_layers);

}  // namespace cairn
