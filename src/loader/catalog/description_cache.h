/// Keeps what was read from the headers of model files, in a file of JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "loader/catalog/description.h"

namespace cairn::loader {

/// Files that one cache keeps, and bytes of its file; over them the rest is read anew each time.
inline constexpr size_t kDescriptionsMax = 20'000;
inline constexpr size_t kDescriptionBytesMax = 32 << 20;

/// What a file held when it was looked at.
struct CachedDescription : FileState {
  std::optional<ModelSummary> model;  ///< nullopt: no model
  std::string broken;                 ///< why it cannot be read; empty: it can

  CachedDescription() = default;
  /// The entry of a file as it is, with nothing known of it.
  explicit CachedDescription(const FileState& state) : FileState(state) {}
};

/// The descriptions by the files' paths.
using DescriptionCache = std::map<std::string, CachedDescription, std::less<>>;

/// What can be used of the text of a cache's file; lines that cannot are left out.
DescriptionCache parse_descriptions(std::string_view text);
DescriptionCache read_descriptions(const std::filesystem::path& file);
/// Replaces the file at once, or leaves it as it was. Errors: kIo.
Result<void> write_descriptions(const std::filesystem::path& file, const DescriptionCache& cache);

}  // namespace cairn::loader
