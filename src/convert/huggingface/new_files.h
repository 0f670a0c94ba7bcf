/// Writes planned tensors to one or several files.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "convert/huggingface/conversion.h"
#include "convert/huggingface/convert.h"

namespace cairn::convert {

/// Writes the tensors of the conversion with these types, in order, and its metadata into the first file. All files
/// appear when all are complete. Errors: kCorruptFile (a weight that is no number), kUnsupported (one that the type
/// cannot hold), both with tensor and place; those of gguf::Writer.
Result<std::vector<std::filesystem::path>> write_files(const std::filesystem::path& out, const Conversion& conversion,
                                                       std::span<const TensorType> types,
                                                       const ConvertOptions& options);

}  // namespace cairn::convert
