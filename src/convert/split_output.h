/// Writes a model as one file, or as a set NAME-00001-of-00003.gguf.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace cairn::convert {

/// The number of the first tensor of each file that holds at most `bytes_max` bytes of tensors, but at least one.
std::vector<size_t> parts_of_size(std::span<const gguf::Tensor> tensors, std::span<const TensorType> types,
                                  int64_t bytes_max);
/// The same of the files that `file` was read from. Errors: those of MappedFile and parse_part.
Result<std::vector<size_t>> parts_of_file(const std::filesystem::path& path, const gguf::Reader& file);

/// The files appear under their names only once all of them are complete. Move-only.
class SplitOutput {
 public:
  /// `first` is the number of the first tensor of each file, from 0. All tensors are declared, and the keys of a set
  /// are there; the others belong to the first file. Errors: those of gguf::Writer; kTooLarge, over kSplitsMax files.
  static Result<SplitOutput> create(const std::filesystem::path& out, std::span<const gguf::Tensor> tensors,
                                    std::span<const TensorType> types, std::vector<size_t> first);
  /// The path of a part, counted from 0: `out` itself if there is one, otherwise NAME-0000N-of-0000M.gguf.
  static std::filesystem::path path_of(const std::filesystem::path& out, uint32_t part, uint32_t parts);

  /// The first file, whose metadata are the model's.
  gguf::Writer& first() { return writers_.front(); }
  /// The file that has the tensor; tensors are written in their order.
  gguf::Writer& of(size_t tensor);
  /// Errors: those of gguf::Writer.
  Result<void> finish();

 private:
  SplitOutput() = default;

  std::vector<size_t> first_;
  std::vector<gguf::Writer> writers_;
};

}  // namespace cairn::convert
