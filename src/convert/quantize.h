/// Writes a model file again with smaller (or wider) weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "convert/importance.h"
#include "convert/quantize_mix.h"
#include "gguf/reader.h"

namespace cairn::convert {

struct QuantizeProgress {
  std::string_view tensor;
  TensorType from;
  TensorType to;
  int64_t tensor_index;  ///< from 0
  int64_t tensors;
  int64_t bytes_done;  ///< of the input's tensors
  int64_t bytes_total;
};

struct QuantizeOptions {
  QuantizeMix mix = QuantizeMix::kQ4_K_M;
  int threads = 0;  ///< 0: one per usable core
  /// Called on the caller's thread after each part of a tensor is written; may be empty.
  std::function<void(const QuantizeProgress&)> progress = {};
  TypeRequest types{};  ///< besides its mix, which is the one above
  /// In place of the types of the mix and of `types`, of every tensor.
  std::vector<TensorType> chosen{};
  const ImportanceMatrix* importance = nullptr;  ///< null: none
  std::string importance_file{};                 ///< its name, for the metadata
  int64_t split_bytes_max = 0;                   ///< of a file's tensors, unless a tensor is larger; 0: one file
  bool keep_split = false;                       ///< as many files as the input has, with the same tensors
};

/// Bytes and elements of all tensors of one type.
struct TypeSize {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

struct QuantizeReport {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes_in = 0;  ///< bytes of tensors, as bytes_out
  int64_t bytes_out = 0;
  int64_t fallbacks = 0;  ///< number of tensors whose rows did not fit the wanted type
  int64_t files = 1;
  std::map<TensorType, TypeSize> sizes{};  ///< of the output
  /// Tensors of few bits of which the importance matrix, if there is one, does not know anything.
  std::vector<std::string> without_importance{};
  /// "tensor: 3 of 64 experts" that no input reached.
  std::vector<std::string> unreached{};
  double bits_per_weight() const;
};

inline constexpr int kQuantizeThreadsMax = 512;

/// What quantize_file would write. Errors: those of plan_types; kInvalidArgument: the importance matrix is of another
/// model; a mix or type that needs one has none.
Result<QuantizeReport> plan_quantize(const gguf::Reader& file, const QuantizeOptions& options);

/// Reads `in` (any part of a split model stands for the whole) and writes one file `out`, or files of which `out` is
/// the name without -00001-of-0000N; they appear under their names only once all are complete. The same input and
/// options give the same bytes for any number of threads. Uses some tens of MiB of memory. Errors: those of
/// plan_quantize, gguf::Reader and Writer; kInvalidArgument for an `out` that is (a part of) the input; kCorruptFile
/// with tensor and element for an infinity or NaN; kUnsupported likewise for a number that the type cannot hold.
Result<QuantizeReport> quantize_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                     const QuantizeOptions& options);

}  // namespace cairn::convert
