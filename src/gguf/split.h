/// Names of GGUF files, and split models: files NAME-00001-of-00003.gguf that together form one model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// Whether the name of a file, or its path, ends in ".gguf", in any case, behind something.
bool is_gguf_name(std::string_view file_name);

/// The parts of a file name: NAME-00002-of-00003.gguf is {NAME, 2, 3}.
struct SplitName {
  std::string stem;
  uint32_t part = 0;  ///< counted from 1
  uint32_t parts = 0;
  std::string ending = ".gguf";  ///< as it is written
};

/// nullopt if the name does not have that form.
std::optional<SplitName> split_name(const std::string& file_name);
/// The name of another part of the same set, counted from 1.
std::string split_file_name(const SplitName& name, uint32_t part);

/// A part's metadata about its set.
struct SplitInfo {
  uint32_t part = 0;                      ///< split.no, counted from 0
  uint32_t parts = 1;                     ///< split.count; 1 for a file that is not split
  std::optional<uint64_t> tensors_total;  ///< split.tensors.count
};

/// kCorruptFile if the keys contradict each other, kTooLarge over kSplitsMax.
Result<SplitInfo> split_info(const Metadata& metadata);

}  // namespace cairn::gguf
