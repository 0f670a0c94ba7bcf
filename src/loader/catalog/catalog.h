/// The models that lie on this machine: found, named and described without reading their weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "loader/catalog/description.h"
#include "loader/catalog/made_model.h"
#include "loader/catalog/places.h"

namespace cairn::loader {

struct CatalogModel : ModelSummary {
  std::string name;                  ///< unique in its catalog
  std::vector<std::string> aliases;  ///< other names, of which none is another model's name
  std::filesystem::path path;        ///< of a split model: the first part
  ModelSource source = ModelSource::kOwn;
  FileState file_state{};  ///< when it was described
  int64_t modified_unix_s = 0;
  std::string digest;                       ///< SHA-256 in hex where its place says it; else empty
  std::shared_ptr<const MadeModel> made{};  ///< what was made of the file under this name; null: it is the file's own

  bool usable() const { return unusable.empty(); }
};

struct Catalog {
  std::vector<CatalogModel> models;  ///< by place, then by path; the first place's names come first
  std::vector<SkippedFile> skipped;  ///< files that are broken or cannot be read
};

/// Looks through the places, in their order. A file that two of them have (or two links in one) is one model, with the
/// other name as an alias. Models that were made in Cairn's own folder come last. What headers say is kept in
/// `cache_file` by path, size, inode and time, so that a second look opens no file that has not changed; empty: nothing
/// is kept. A cache that cannot be read or written is done without.
Catalog scan_models(const std::vector<ModelPlace>& places, const std::filesystem::path& cache_file);

/// A model whose file somebody has named. Errors: those of gguf::Reader::open; kUnsupported (no model, but a part of
/// one).
Result<CatalogModel> describe_file(const std::filesystem::path& path);

}  // namespace cairn::loader
