/// Writes a file that appears under its name only when it is whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"

namespace cairn {

/// Errors: kInvalidArgument, where something lies that is no file: a folder, or a device, which a rename would replace.
Result<void> check_file_may_be_made(const std::filesystem::path& path);

/// Destroyed unfinished, it leaves nothing behind, and what had the name before stays.
class NewFile {
 public:
  /// Errors: kIo, those of check_file_may_be_made.
  static Result<NewFile> create(const std::filesystem::path& path);
  NewFile(NewFile&&) noexcept;
  NewFile& operator=(NewFile&&) noexcept;
  ~NewFile();

  /// Errors: kIo.
  Result<void> write(std::span<const std::byte> bytes);
  /// Has everything reach the disk, and gives the file its name. Errors: kIo.
  Result<void> finish();

 private:
  struct State;
  explicit NewFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn
