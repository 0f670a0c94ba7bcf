/// Importance matrices: how large the inputs of a model's weights are on a calibration text. An encoder of few bits
/// keeps those columns of a matrix more exact that meet large inputs.
///
/// Two forms of file are read, both llama.cpp's. The one that is written is GGUF: general.type "imatrix",
/// imatrix.datasets (names of texts), imatrix.chunk_count and imatrix.chunk_size (tokens), and for each weight NAME two
/// tensors of F32: NAME.in_sum2 [columns, matrices], sums of squared inputs, and NAME.counts [1, matrices], over how
/// many inputs. The older one (".dat", ".imatrix") is binary, little-endian: a 32-bit number of entries; of each the
/// length of its name, the name, a number of chunks, a number of values, and the values as float32, means times chunks;
/// then, if anything, the number of chunks in all, the length of a text's name, and that name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::convert {

/// How much the columns of one weight matter.
struct ImportanceEntry {
  std::vector<float> sums;    ///< [matrices, columns]: of squared inputs. The older form does not tell the two apart
  std::vector<float> counts;  ///< [matrices], or [1] for all of them together: inputs that were summed
};

/// What a quantiser needs to know of one tensor.
struct ColumnImportance {
  std::vector<float> means;  ///< [matrices, columns] of squared inputs; empty if there are none
  /// Matrices that no input has reached, of which each has the mean of all others.
  std::vector<int64_t> unreached;
};

struct ImportanceMatrix {
  std::vector<std::string> datasets;  ///< names of the texts
  int64_t chunks = 0;
  int64_t chunk_tokens = 0;  ///< 0 in the older form, whose counts are of chunks
  std::map<std::string, ImportanceEntry, std::less<>> entries;

  /// Errors: those of gguf::Reader; kCorruptFile (neither form, cut short, sums and counts that do not fit each other,
  /// a number that is negative or not finite), with the place.
  static Result<ImportanceMatrix> open(const std::filesystem::path& path);
  /// The same of bytes in memory.
  static Result<ImportanceMatrix> from_bytes(std::span<const std::byte> bytes);
  /// Writes the GGUF form. It appears under its name once it is complete. Errors: those of gguf::Writer.
  Result<void> write(const std::filesystem::path& path) const;

  /// Adds what other texts gave with the same model. A chunk of the older form weighs as much as one of this matrix.
  /// Errors, kInvalidArgument: an entry has another size.
  Result<void> add(const ImportanceMatrix& other);
  /// How much the columns of a tensor of the model matter; empty where nothing is known. Errors, kInvalidArgument: the
  /// entry is of another size, so that the file is of another model.
  Result<ColumnImportance> of(const gguf::Tensor& tensor) const;
};

}  // namespace cairn::convert
