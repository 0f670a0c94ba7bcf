/// Writes GGUF version 3 files: metadata and tensor directory first, then tensors one after another as they are made.
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

/// Into a temporary file beside `path`, synced and renamed by finish(), removed if that is never reached: a reader sees
/// the whole file or none. A call that cannot be carried out (a name twice, a number that does not fit its type, rows
/// that are not whole blocks) makes the next write() or finish() fail with what was wrong first. One thread at a time.
class Writer {
 public:
  /// Errors: kInvalidArgument (an alignment that Reader would refuse), kIo. A file at `path` is replaced by finish().
  static Result<Writer> create(const std::filesystem::path& path, uint32_t alignment = 32);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  /// Metadata, in order; a key set again replaces the value. Only before the first tensor's bytes. Keys and text are
  /// UTF-8. Setting general.alignment sets the alignment.
  void set(std::string_view key, std::string_view value);
  void set_integer(std::string_view key, ValueType type, int64_t value);
  void set_number(std::string_view key, ValueType type, double value);
  void set_boolean(std::string_view key, bool value);
  /// Any value of another file, arrays included. To copy a split model into one file leave out its split.* keys.
  void set(std::string_view key, const Value& value);

  /// Declares a tensor; shape[0] is the row length. All are declared before the first byte of any is written.
  void declare(std::string_view name, TensorType type, std::span<const int64_t> shape);
  /// The next bytes of the tensors in order of declaration; a tensor's bytes may come in parts. Padding between tensors
  /// is the writer's business. Errors: kInvalidArgument (more bytes than declared, an earlier call), kIo (disk full).
  Result<void> write(std::span<const std::byte> bytes);
  /// Leaves all that was not written zero: holes in the file, where the file system has such. Errors: kInvalidArgument
  /// (an earlier call), kIo (disk full).
  Result<void> skip_rest();
  /// Checks that every declared byte was written, syncs and renames. Once; after it the writer is of no further use.
  Result<void> finish();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::gguf
