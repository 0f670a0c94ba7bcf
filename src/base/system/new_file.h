/// Writes a file that appears under its name only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"

namespace cairn {

/// Errors: kInvalidArgument, where something lies that is no file: a folder, or a device, which a rename would replace.
Result<void> check_file_may_be_made(const std::filesystem::path& path);

/// The bytes go to PATH.PID-N.partial, which is locked while it is written. Destroyed unfinished, it leaves nothing
/// behind, and what had the name before stays. A process that was killed leaves its partial file, which nobody locks
/// any more: the next one that makes a file of the same name deletes it.
class NewFile {
 public:
  /// Errors: kIo, those of check_file_may_be_made.
  static Result<NewFile> create(const std::filesystem::path& path);
  NewFile(NewFile&&) noexcept;
  NewFile& operator=(NewFile&&) noexcept;
  ~NewFile();

  /// Errors: kIo.
  Result<void> write(std::span<const std::byte> bytes);
  /// Makes the file `bytes` long: what was not written are zeros, which take no space where the file system has holes.
  /// Errors: kIo.
  Result<void> resize(uint64_t bytes);
  /// Has everything reach the disk, for files that are to appear together: finish() has little left to do. Errors: kIo.
  Result<void> sync();
  /// Has everything reach the disk, and gives the file its name. Called once. Errors: kIo.
  Result<void> finish();

 private:
  struct State;
  explicit NewFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn
