/// A file's bytes in memory without reading it (read-only, shared mapping).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/error.h"

namespace cairn {

/// Move-only; unmaps when destroyed. The bytes change or vanish (SIGBUS) if another program truncates the file: model
/// files are replaced by renaming, never rewritten in place.
class MappedFile {
 public:
  /// Errors: kNotFound, kIo (a directory, no permission), each naming the path. An empty file maps to no bytes.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Gives the memory of `part` back, if it lies in this file; whoever looks at it again reads it again. True if it
  /// does.
  bool release(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace cairn
