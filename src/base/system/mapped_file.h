/// A file's bytes in memory without reading it (read-only, shared mapping).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

namespace cairn {

/// Mappings of the process that a bus error can be told apart by; of more, one ends the program without a word.
inline constexpr size_t kMappingsMax = 2'048;

/// Move-only; unmaps when destroyed. Files should be replaced by renaming, never rewritten in place: then the mapping
/// keeps the old one. Bytes of a file that was cut short or cannot be read are a bus error (SIGBUS), which ends the
/// program with a line that names the file, unless survive_cuts() was called.
class MappedFile {
 public:
  /// Errors: kNotFound, kIo (a directory, a pipe, a device, no permission), each naming the path. An empty file maps to
  /// no bytes. Never waits for a writer, as opening a pipe would.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Gives the memory of `part` back, if it lies in this file; whoever looks at it again reads it again. True if it
  /// does.
  bool release(std::span<const std::byte> part) const;

  const std::string& path() const { return path_; }
  /// From now on what the file lacks is read as zeros, and was_cut() tells so: for who asks before using the result.
  void survive_cuts() const;
  /// Some of the bytes were not there when they were read. Thread-safe, one load.
  bool was_cut() const;
  /// The file has another size or time than when it was opened (one system call). One that was replaced or deleted has
  /// not: the mapping keeps it.
  bool was_rewritten() const;

 private:
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t bytes = 0, modified_ns = 0;
  };
  MappedFile() = default;

  std::span<const std::byte> bytes_;
  std::string path_;
  Identity identity_;
  size_t slot_ = kMappingsMax;  // of the table that the signal handler reads; kMappingsMax: none
};

}  // namespace cairn
