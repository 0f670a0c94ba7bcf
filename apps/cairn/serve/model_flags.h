/// Flags of `cairn serve` that a model has, and what the config file says of single models.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "api/params/generation_defaults.h"
#include "base/error.h"
#include "config/config_file.h"
#include "load_flags.h"

namespace cairn {

/// How a model is loaded, and what its requests get that leave something out.
struct ModelFlags {
  LoadFlags load;
  api::GenerationDefaults defaults;

  /// But for the file and its names.
  void add_to(CLI::App& command);
  /// What requests get that leave it out, whatever their protocol's own default is.
  void add_defaults_to(CLI::App& command);
  /// How many requests a model takes, and what it keeps of them.
  void add_limits_to(CLI::App& command);
};

/// The flags of the model with these names: the server's, and in their place what [model."NAME"] says of any of the
/// names. Errors: kInvalidArgument, with all that is wrong in that table.
Result<ModelFlags> flags_of_model(const ConfigFile& config, std::span<const std::string> names,
                                  const ModelFlags& server);
/// What is wrong in the tables of models.
std::vector<std::string> check_model_tables(const ConfigFile& config);

}  // namespace cairn
