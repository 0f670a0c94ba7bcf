/// Checksums of model files, as sha256sum lists them, and comparing a file with what somebody says of it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::hub {

/// A line "HEX  NAME". NAME is a file's name, or FILE:TENSOR for one of its tensors.
struct Checksum {
  std::string sha256;  ///< 64 lower-case hexadecimal digits
  std::string name;    ///< without folders
  std::string text() const { return sha256 + "  " + name; }
};

/// A list as sha256sum prints it: 64 hexadecimal digits, two spaces (or a space and '*'), a name; or the digits alone,
/// which then are those of `file_name`. Empty lines, and those that begin with '#', are passed over. Errors:
/// kInvalidArgument with the line's number; an empty list.
Result<std::vector<Checksum>> parse_checksums(std::string_view text, std::string_view file_name);

/// What the place of a file says of its content: the blobs of Hugging Face's cache and of Ollama are called by their
/// SHA-256, also where a link leads to them. nullopt: nothing.
std::optional<std::string> checksum_in_name(const std::filesystem::path& path);

/// All parts of a split model, in order; of other files the file itself.
std::vector<std::filesystem::path> files_of_model(const std::filesystem::path& path);

/// The checksum of every tensor of the file, in order. `on_bytes` gets the number of bytes that were read; false ends
/// it (kCancelled).
Result<std::vector<Checksum>> tensor_checksums(const gguf::Reader& file, std::string_view file_name,
                                               const std::function<bool(int64_t)>& on_bytes);

/// What is wrong with a model's checksums. `found` may be of its files, of its tensors, or of both.
struct ChecksumMismatch {
  std::string name;
  std::string expected;
  std::string found;  ///< empty: the model has no such file or tensor
};
/// Compares what the list names of this model with what was found. Lines of other files are passed over; names of
/// tensors are compared without that of their file, which may have been renamed. Error (kNotFound): the list has no
/// line for any of it.
Result<std::vector<ChecksumMismatch>> compare_checksums(std::span<const Checksum> expected,
                                                        std::span<const Checksum> found);

}  // namespace cairn::hub
