/// Writes GGUF version 3 files: metadata and tensor directory first, then tensors one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// Writes to a NewFile: a reader sees the complete file or none. An invalid call (a duplicate name, a number that does
/// not fit its type, rows that are not whole blocks) makes the next write() or finish() fail with the first such error.
/// Not thread-safe.
class Writer {
 public:
  /// Errors: kInvalidArgument (an alignment that Reader would refuse), kIo. A file at `path` is replaced by finish().
  static Result<Writer> create(const std::filesystem::path& path, uint32_t alignment = 32);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  /// Sets metadata, in order; setting a key again replaces its value. Only before the first tensor's bytes. Keys and
  /// text are UTF-8. Setting general.alignment sets the alignment.
  void set(std::string_view key, std::string_view value);
  void set_integer(std::string_view key, ValueType type, int64_t value);
  void set_number(std::string_view key, ValueType type, double value);
  void set_boolean(std::string_view key, bool value);
  /// Sets any value of another file, including arrays. To copy a split model into one file leave out its split.* keys.
  void set(std::string_view key, const Value& value);

  /// Declares a tensor; shape[0] is the row length. All are declared before the first byte of any is written.
  void declare(std::string_view name, TensorType type, std::span<const int64_t> shape);
  /// Writes the next bytes of the tensors in order of declaration; a tensor's bytes may come in parts. Padding between
  /// tensors is added. Errors: kInvalidArgument (more bytes than declared, an earlier call), kIo (disk full).
  Result<void> write(std::span<const std::byte> bytes);
  /// Leaves all bytes that were not written zero, as holes in the file if the file system supports them. Errors:
  /// kInvalidArgument (an earlier call), kIo (disk full).
  Result<void> skip_rest();
  /// Checks that every declared byte was written, and has them reach the disk, for files that are to appear together:
  /// finish() has little left to do. Errors: those of finish().
  Result<void> sync();
  /// Checks that every declared byte was written, syncs and renames. Called once; the writer cannot be used afterwards.
  Result<void> finish();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::gguf
