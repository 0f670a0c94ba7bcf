/// Writes a model file again with smaller (or wider) weights.
///
/// A mix gives each tensor its type, as in llama.cpp's files of that name: most matrices get the type in its name, the
/// output matrix and the most sensitive layers a wider one. Norms, biases, routers and other small tensors are not
/// changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "gguf/reader.h"

namespace cairn::convert {

enum class QuantizeMix { kF32, kF16, kBF16, kQ8_0, kQ6_K, kQ4_K_M, kQ4_K_S, kQ4_0 };

struct QuantizeMixInfo {
  QuantizeMix mix;
  std::string_view name;     ///< also the name of such files (FileType)
  std::string_view summary;  ///< a one-line description
};

/// Every mix, widest first.
std::span<const QuantizeMixInfo> quantize_mixes();
const QuantizeMixInfo& quantize_mix_info(QuantizeMix mix);
/// The mix of that name, ignoring case; "Q4_K" is Q4_K_M.
std::optional<QuantizeMix> quantize_mix_named(std::string_view name);

/// The type of every tensor (in their order) under the mix. Tensors that cannot be decoded (integers) and small ones
/// keep their type; rows that are not a multiple of the wanted type's block become Q8_0, or F16 if they are no multiple
/// of 32 either.
std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, QuantizeMix mix);
inline std::vector<TensorType> choose_types(const gguf::Reader& file, QuantizeMix mix) {
  return choose_types(file.tensors(), mix);
}
/// The types for a mix of a single type, even one that cannot be encoded, for all tensors that a mix would change.
std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, TensorType type);

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
};

struct QuantizeReport {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes_in = 0;  ///< bytes of tensors, as bytes_out
  int64_t bytes_out = 0;
  int64_t fallbacks = 0;  ///< number of tensors whose rows did not fit the mix's type
  double bits_per_weight() const;
};

inline constexpr int kQuantizeThreadsMax = 512;

/// Reads `in` (any part of a split model stands for the whole) and writes one file `out`, which appears under its name
/// only once it is complete. The same input and mix give the same bytes for any number of threads. Uses some tens of
/// MiB of memory. Errors: those of gguf::Reader and Writer; kInvalidArgument for an `out` that is (a part of) the
/// input; kCorruptFile with tensor and element for an infinity or NaN; kUnsupported likewise for a number that the type
/// cannot hold.
Result<QuantizeReport> quantize_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                     const QuantizeOptions& options);

}  // namespace cairn::convert
