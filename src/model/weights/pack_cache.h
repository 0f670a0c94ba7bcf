/// Copies of weights that the backend made for itself (WeightStore::load), kept beside the model for the next start.
///
/// A GGUF file named like the model with ".packed" after it: one I8 tensor for each copy, named like the tensor that it
/// was made of, and in the metadata what it was made from (identity) and by (the backend's format), and a checksum of
/// each. It replaces nothing: the model file is still needed, and the cache may be deleted at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "kernels/device_memory.h"

namespace cairn::model {

class PackCache {
 public:
  /// The cache of the model at `model_path`, which is open as `model`. It is empty if there is none, or none that fits:
  /// the model or the format has changed, or the file is damaged (logged): all of it is read and compared with its
  /// checksums. Maps the file; outlives what find returned. With an empty format nothing is found or saved.
  PackCache(const std::filesystem::path& model_path, const gguf::Reader& model, std::string_view format);

  /// The copy of that name; empty if there is none.
  std::span<const std::byte> find(std::string_view name) const;
  /// To be saved. Names are those that find is asked for, each once.
  void add(std::string name, std::shared_ptr<kernels::Buffer> copy);
  /// Writes the file if anything was added. Errors: kIo (no room, no permission); the copies are still good.
  Result<void> save();

  const std::filesystem::path& path() const { return path_; }
  /// Null: there is none that fits.
  const gguf::Reader* file() const { return file_ ? &*file_ : nullptr; }

 private:
  struct Copy {
    std::string name;
    std::shared_ptr<kernels::Buffer> memory;
  };

  std::filesystem::path path_;
  std::string format_;
  std::string identity_;  // of the model
  std::optional<gguf::Reader> file_;
  std::vector<Copy> added_;
};

}  // namespace cairn::model
