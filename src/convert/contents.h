/// What a model file holds, apart from how it is split and laid out, and writing it as a new file: what the tools that
/// edit, split, merge and splice files have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace cairn::convert {

/// Everything points into the readers that it came from, which outlive it.
struct Contents {
  std::vector<std::pair<std::string_view, gguf::Value>> metadata;  ///< in the order of the file
  std::vector<gguf::Tensor> tensors;                               ///< likewise

  /// All of a file or of a set of split files, without the keys that say how it is split.
  static Contents of(const gguf::Reader& file);

  /// nullptr: there is no such key.
  gguf::Value* find(std::string_view key);
  /// Bytes of all tensors.
  int64_t tensor_bytes() const;
  /// general.alignment, or the default if it is not there or cannot be used.
  int64_t alignment() const;
  /// Bytes of the file that write_contents makes.
  Result<int64_t> file_bytes() const;
  /// Bytes by which a tensor makes such a file longer, at most.
  int64_t added_bytes(const gguf::Tensor& tensor) const;
};

/// Whether a key says how a model is split (split.no and others), and is not part of what it holds.
inline bool is_split_key(std::string_view key) { return key.starts_with("split."); }

struct CopyProgress {
  std::string_view tensor{};  ///< whose bytes were copied or read last
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;  ///< of all tensors
};
/// Called on the caller's thread after each few megabytes; may be empty.
using OnCopy = std::function<void(const CopyProgress&)>;

/// Error (kInvalidArgument): the output would replace the input, or a part of it.
Result<void> check_output(const std::filesystem::path& in, const std::filesystem::path& out);

/// Writes a file that only has to be finished to appear under its name. `progress` is continued, so that it may be that
/// of several files. Errors: those of gguf::Writer.
Result<gguf::Writer> write_contents(const Contents& contents, const std::filesystem::path& out, CopyProgress& progress,
                                    const OnCopy& on_copy);
/// Writes one file and finishes it, unless one of the files that were read has been changed meanwhile. Errors: those of
/// gguf::Writer; kIo (a file was changed, which is named).
Result<void> write_file(const Contents& contents, const std::filesystem::path& out,
                        std::initializer_list<const gguf::Reader*> read, const OnCopy& on_copy);

/// Error (kIo): the file, or one of its parts, is no longer as it was when it was opened.
Result<void> check_unchanged(const gguf::Reader& file);

}  // namespace cairn::convert
