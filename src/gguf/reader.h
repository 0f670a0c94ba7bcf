/// Reads GGUF model files: metadata and tensors, checked completely before anything is used.
///
/// Source: the GGUF specification (ggml docs/gguf.md), versions 2 and 3, little-endian; split files named
/// NAME-00001-of-00003.gguf with split.no, split.count and split.tensors.count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <forward_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/system/mapped_file.h"
#include "base/tensor_type.h"

namespace cairn::gguf {

/// Limits on what a hostile file can make us allocate. Published files stay far below.
inline constexpr uint64_t kMetadataMax = 65'536;
inline constexpr uint64_t kTensorsMax = 1'048'576;
inline constexpr uint64_t kStringBytesMax = 64ull << 20;
inline constexpr uint64_t kArrayElementsMax = 1ull << 26;
inline constexpr int kArrayDepthMax = 4;
inline constexpr int kDimensionsMax = 4;
inline constexpr uint32_t kSplitsMax = 1'024;
inline constexpr uint64_t kNameBytesMax = 65'535;  ///< a key's or a tensor's name

/// The alignment of a file without general.alignment.
inline constexpr uint32_t kAlignmentDefault = 32;
/// The minimum alignment, which is a power of two and enough for loading every element type in place.
inline constexpr uint32_t kAlignmentMin = 8;

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view value_type_name(ValueType type);

struct Value;
/// Elements of one type: numbers stay as the file's bytes (little-endian, unaligned); strings and arrays are unpacked.
struct Array {
  ValueType type = ValueType::kU8;
  uint64_t size = 0;
  std::span<const std::byte> numbers;     ///< elements of number and bool types
  std::vector<std::string_view> strings;  ///< elements of kString as in the file, not checked to be UTF-8
  std::vector<Value> arrays;              ///< elements of kArray
};

/// A metadata value; strings and numbers point into the file's header, of which Reader has a copy.
struct Value {
  ValueType type = ValueType::kU8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> data;
};

/// Keys and values of a file (of its first part, if split). Typed readers convert between number types when the value
/// fits. Each Error names the key, what is there and what was expected.
class Metadata {
 public:
  Metadata() = default;
  explicit Metadata(std::map<std::string_view, Value> values) : values_(std::move(values)) {}

  const Value* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const std::map<std::string_view, Value>& values() const { return values_; }
  /// Sets a key in place of what the file says. The key and what the value points to outlive this.
  void set(std::string_view key, Value value) { values_.insert_or_assign(key, std::move(value)); }

  /// Required values: kCorruptFile if the key is missing or of another type.
  Result<std::string_view> string(std::string_view key) const;
  Result<int64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::span<const std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<float>> floats(std::string_view key) const;
  Result<std::vector<bool>> booleans(std::string_view key) const;

  /// Optional values: `missing` if there is no such key, an Error if it has another type.
  Result<std::string_view> string_or(std::string_view key, std::string_view missing) const;
  Result<int64_t> integer_or(std::string_view key, int64_t missing) const;
  Result<double> number_or(std::string_view key, double missing) const;
  Result<bool> boolean_or(std::string_view key, bool missing) const;

 private:
  std::map<std::string_view, Value> values_;
};

/// A tensor's place. shape[0] is the row length (number of contiguous elements), as in the file; a scalar's shape is
/// {1}, so that there is always a row.
struct Tensor {
  std::string_view name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  int64_t elements() const;
};

/// An open model file or set of split files. Move-only. Tensors point into its mappings; names and metadata point into
/// a copy of the headers, which does not change whatever happens to the files. Thread-safe once open.
class Reader {
 public:
  /// `path` is the file, or any part of a split set (the others are found beside it). Errors: kNotFound, kIo,
  /// kCorruptFile (with the offset), kUnsupported (version, big-endian, tensor type: what is supported is listed),
  /// kTooLarge (limits).
  static Result<Reader> open(const std::filesystem::path& path);
  /// For tests and fuzzing: bytes in memory that outlive the reader; not split.
  static Result<Reader> from_bytes(std::span<const std::byte> bytes);
  /// What a file would be that does not exist yet. What the keys, values and tensors point to outlives the reader.
  static Reader planned(Metadata metadata, std::vector<Tensor> tensors);

  /// The GGUF version, 2 or 3 (of the first part, if split).
  uint32_t version() const { return version_; }
  const Metadata& metadata() const { return metadata_; }
  /// From now on the file counts as one that has this key with this value. What the value points to outlives the
  /// reader. Not while other threads read it.
  void set_metadata(std::string key, Value value) {
    metadata_.set(own_keys_.emplace_front(std::move(key)), std::move(value));
  }
  /// The tensors in file order.
  std::span<const Tensor> tensors() const { return tensors_; }
  /// The tensor of that name; nullptr if there is none.
  const Tensor* find_tensor(std::string_view name) const;
  /// Frees the memory of a tensor's bytes, after it was copied. They stay readable.
  void release(const Tensor& tensor) const;
  /// Reads a tensor's bytes into memory, so that using them in place does not wait for a disk.
  void warm(const Tensor& tensor) const;
  /// Calls MappedFile::survive_cuts for all parts.
  void survive_cuts() const;
  /// The first part that was cut short while it was read, or was rewritten; null: none.
  const MappedFile* find_cut() const;
  const MappedFile* find_rewritten() const;
  /// Records that tensors are used in place, in the file's mapping.
  void use_in_place() const { used_in_place_ = true; }
  bool used_in_place() const { return used_in_place_; }
  /// Bytes of all parts.
  int64_t file_bytes() const { return file_bytes_; }

 private:
  void set_tensors(std::vector<Tensor> tensors);

  uint32_t version_ = 0;
  int64_t file_bytes_ = 0;
  mutable bool used_in_place_ = false;
  std::vector<MappedFile> files_;
  std::vector<std::vector<std::byte>> headers_;  // a copy of each part's header
  std::forward_list<std::string> own_keys_;      // of set_metadata
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace cairn::gguf
