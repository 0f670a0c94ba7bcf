/// Flags that say which models there are, and which of them are loaded.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/catalog/catalog.h"
#include "loader/model_manager.h"

namespace cairn {

/// Where models lie.
struct CatalogFlags {
  std::string folder;  ///< empty: default_models_folder()
  bool own_only = false;

  void add_to(CLI::App& command);
  std::string models_folder() const { return folder.empty() ? loader::default_models_folder().string() : folder; }
  /// Looks through the folders.
  loader::Catalog scan() const;
  /// What to do where there are no models.
  std::string how_to_add() const;
};

/// What a server of several models does.
struct ManagerFlags {
  int64_t memory_bytes = 0;  ///< 0: what the machine has, or, of one file, no bound but that
  std::optional<loader::KeepAlive> idle_unload;
  bool strict = false;
  std::vector<std::string> pins;
  std::vector<std::string> defaults;

  void add_to(CLI::App& command);
  /// `from_catalog`: models that nobody has named on the command line.
  loader::ModelManagerOptions options(bool from_catalog, size_t files) const;
  /// Pins the models that --pin names. Errors: kNotFound, there is none of that name, or of --default-model.
  Result<void> pin(std::vector<loader::ServedModel>& models) const;
};

/// Tells the log of files that are left out.
void log_skipped(const std::vector<loader::SkippedFile>& skipped);

}  // namespace cairn
