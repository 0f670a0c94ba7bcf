/// Splits a model file into parts NAME-00001-of-0000N.gguf, and joins them again (gguf/split.h).
///
/// Part 1 has the metadata, and every part the keys split.no, split.count and split.tensors.count, of the types that
/// llama-gguf-split gives them. Tensors stay whole and in their order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "convert/contents.h"

namespace cairn::convert {

struct SplitOptions {
  int64_t bytes_max = 0;          ///< of each part, with its header; 0: no limit
  int64_t tensors_max = 0;        ///< of each part; 0: no limit
  bool first_part_empty = false;  ///< part 1 has the metadata alone
  bool dry_run = false;           ///< nothing is written
  OnCopy on_copy = {};
};

struct SplitPart {
  std::filesystem::path path;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

/// Writes the parts, whose names begin with `prefix` (a ".gguf" at its end is left out); they appear together once all
/// are complete, part 1 last. `in` may be split itself. Errors: those of gguf::Reader and Writer; kInvalidArgument (no
/// limit is given, a part would replace the input, a tensor or the metadata is larger than a part); kTooLarge (over
/// gguf::kSplitsMax parts); kIo (the input was changed meanwhile).
Result<std::vector<SplitPart>> split_file(const std::filesystem::path& in, const std::filesystem::path& prefix,
                                          const SplitOptions& options);

/// Writes the model of which `in` is a part as one file. Its bytes are those of the file that was split, if that was of
/// GGUF version 3, had its tensors in the order of its directory, and nothing but zeros between them. Errors: those of
/// split_file; kInvalidArgument for a file that is not split.
Result<int64_t> merge_files(const std::filesystem::path& in, const std::filesystem::path& out,
                            const OnCopy& on_copy = {});

}  // namespace cairn::convert
