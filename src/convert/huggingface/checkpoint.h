/// The weights of a folder in Hugging Face's form: model.safetensors, or the parts that an index names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/system/mapped_file.h"
#include "convert/huggingface/safetensors.h"

namespace cairn::convert {

inline constexpr size_t kCheckpointFilesMax = 1'024;

/// Move-only. Tensors point into mapped files.
class Checkpoint {
 public:
  /// Opens NAME.safetensors, the files that NAME.safetensors.index.json lists, or NAME-00001-of-00003.safetensors and
  /// its siblings. Errors: kNotFound (no such files; other forms are named), kIo, those of parse_safetensors with the
  /// file's path, kCorruptFile (an index that does not fit the files).
  static Result<Checkpoint> open(const std::filesystem::path& folder, std::string_view name = "model");
  /// A single file.
  static Result<Checkpoint> open_file(const std::filesystem::path& path);

  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  /// nullptr if there is none of that name.
  const StoredTensor* find(std::string_view name) const;
  /// Frees the memory of bytes that have been read; they stay readable.
  void release(std::span<const std::byte> bytes) const;
  /// Frees the memory of everything that has been read: reading one byte loads pages around it as well.
  void release() const;
  /// Bytes of all tensors.
  int64_t bytes() const;

 private:
  Result<void> add_file(const std::filesystem::path& path);
  Result<void> add_indexed(const std::filesystem::path& folder, const std::filesystem::path& index);

  std::vector<MappedFile> files_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace cairn::convert
