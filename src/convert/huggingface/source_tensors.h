/// The tensors of a checkpoint as a family's rules see them: whole numbers and scales put together, experts apart.
#pragma once

#include <vector>

#include "base/error.h"
#include "convert/huggingface/family.h"

namespace cairn::convert {

/// What became of a checkpoint's tensors.
struct SourceCounts {
  int64_t left_out = 0;  ///< of other parts of the model
};

/// Adds all tensors of the new file to the conversion: by the family's rules, and by name. Errors: kUnsupported (a
/// tensor that the family does not have; it is named), kCorruptFile (an expert is missing, scales do not fit).
Result<SourceCounts> add_tensors(Conversion& conversion, const Family& family);

/// The tensor's rows as numbers: of floats and integers as they are, of FP8 and MXFP4 with their scales. Error:
/// kCorruptFile.
Result<RowsPtr> number_rows(const Checkpoint& checkpoint, std::string_view name, const StoredTensor& tensor,
                            std::vector<int64_t>& shape);

}  // namespace cairn::convert
