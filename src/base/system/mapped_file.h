/// A file's bytes in memory without reading it (read-only, shared mapping).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

namespace cairn {

/// Maximum mappings that the bus error handler distinguishes; an error in a further one ends the program without a
/// message.
inline constexpr size_t kMappingsMax = 2'048;

/// Move-only; unmaps when destroyed. Files should be replaced by renaming, never rewritten in place: then the mapping
/// keeps the old one. Access to bytes of a file that was cut short or cannot be read is a bus error (SIGBUS), which
/// ends the program with a message that names the file, unless survive_cuts() was called.
class MappedFile {
 public:
  /// Errors: kNotFound, kIo (a directory, a pipe, a device, no permission), each naming the path. An empty file maps to
  /// no bytes. Never waits for a writer, as opening a pipe would.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Frees the memory of `part`, if it lies in this file; a later access reads it from the file again. True if it does.
  bool release(std::span<const std::byte> part) const;
  /// Reads `part` into memory and maps its pages, if it lies in this file, so that later accesses do not wait for a
  /// disk. True if it does.
  bool warm(std::span<const std::byte> part) const;

  const std::string& path() const { return path_; }
  /// From now on missing bytes of the file are read as zeros, and was_cut() reports that, for checking before a result
  /// is used.
  void survive_cuts() const;
  /// Whether some of the bytes were missing when they were read. Thread-safe, one load.
  bool was_cut() const;
  /// Whether the file's size or time has changed since it was opened (one system call). Not the case for a file that
  /// was replaced or deleted: the mapping keeps it.
  bool was_rewritten() const;

 private:
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t bytes = 0, modified_ns = 0;
  };
  MappedFile() = default;
  bool contains(std::span<const std::byte> part) const;

  std::span<const std::byte> bytes_;
  std::string path_;
  Identity identity_;
  size_t slot_ = kMappingsMax;  // index in the table of the signal handler; kMappingsMax: none
};

}  // namespace cairn
