/// Keeps what was read from the headers of model files, in a file of JSON lines.
#pragma once

#include <sys/stat.h>

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
struct CachedDescription {
  uint64_t size = 0;
  int64_t modified_ns = 0;
  uint64_t inode = 0;
  std::optional<ModelSummary> model;  ///< nullopt: no model
  std::string broken;                 ///< why it cannot be read; empty: it can

  CachedDescription() = default;
  /// The entry of a file as it is, with nothing known of it.
  explicit CachedDescription(const struct stat& status);
  bool same_file(const CachedDescription& other) const {
    return size == other.size && modified_ns == other.modified_ns && inode == other.inode;
  }
};

/// The descriptions by the files' paths.
using DescriptionCache = std::map<std::string, CachedDescription, std::less<>>;

/// What can be used of the text of a cache's file; lines that cannot are left out.
DescriptionCache parse_descriptions(std::string_view text);
DescriptionCache read_descriptions(const std::filesystem::path& file);
/// Replaces the file at once, or leaves it as it was. Errors: kIo.
Result<void> write_descriptions(const std::filesystem::path& file, const DescriptionCache& cache);

}  // namespace cairn::loader
