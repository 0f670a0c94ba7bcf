/// The types that tensors get. A mix gives each its type, as in llama.cpp's files of that name: most matrices get the
/// type in its name, the output matrix and the most sensitive layers a wider one. Norms, biases, routers and other
/// small tensors are not changed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "gguf/reader.h"

namespace cairn::convert {

// clang-format off
enum class QuantizeMix {
  kF32, kBF16, kF16, kQ8_0, kQ6_K, kQ5_K_M, kQ5_K_S, kQ5_1, kQ5_0, kQ4_K_M, kQ4_K_S, kIQ4_NL, kIQ4_XS, kQ4_1, kQ4_0,
  kMXFP4, kQ3_K_L, kIQ3_M, kQ3_K_M, kQ3_K_S, kIQ3_S, kIQ3_XS, kIQ3_XXS, kQ2_K, kQ2_K_S, kIQ2_M, kIQ2_S, kIQ2_XS,
  kIQ2_XXS, kTQ2_0, kIQ1_M, kTQ1_0, kIQ1_S, kCopy
};
// clang-format on

struct QuantizeMixInfo {
  QuantizeMix mix;
  std::string_view name;          ///< also the name of such files (FileType); kCopy has none
  std::string_view summary;       ///< a one-line description
  TensorType base;                ///< of most matrices
  bool needs_importance = false;  ///< what it makes without an importance matrix is of no use
};

/// Every mix, widest first.
std::span<const QuantizeMixInfo> quantize_mixes();
const QuantizeMixInfo& quantize_mix_info(QuantizeMix mix);
/// The mix of that name, ignoring case; "Q3_K", "Q4_K" and "Q5_K" are the ones with M.
std::optional<QuantizeMix> quantize_mix_named(std::string_view name);

/// A type for all matrices whose name has a part that the pattern (ECMAScript) matches.
struct TypeRule {
  std::string pattern;
  TensorType type;
};
/// "PATTERN=TYPE". Errors, kInvalidArgument: another form, no regular expression, no type of weights.
Result<TypeRule> type_rule_of(const std::string& text);

struct TypeRequest {
  QuantizeMix mix = QuantizeMix::kQ4_K_M;
  bool pure = false;            ///< the mix's main type for all of its matrices
  bool has_importance = false;  ///< some mixes need less bits then
  bool leave_output = false;    ///< output.weight keeps its type
  std::optional<TensorType> output{};
  std::optional<TensorType> embedding{};  ///< of token_embd.weight
  std::vector<TypeRule> rules{};          ///< before all else; the first that matches
};

/// What a model's metadata says that decides types.
struct ModelTraits {
  int64_t experts = 0;
  int64_t queries_per_key = 1;  ///< of attention
  /// Reads them from the metadata; what a file leaves out has the values above.
  static ModelTraits of(const gguf::Metadata& metadata);
};

struct TypePlan {
  std::vector<TensorType> types;  ///< of every tensor, in their order
  int64_t fallbacks = 0;          ///< tensors whose rows do not have whole blocks of the type that they should have
};

/// Tensors that cannot be decoded (integers) and small ones keep their type. Rows that are not a multiple of the wanted
/// type's block get one of 32 elements that is about as wide or wider (IQ4_NL, Q5_0, Q5_1 or Q8_0), or F16 if they are
/// no multiple of 32 either. Errors, kInvalidArgument: a rule that no matrix matches.
Result<TypePlan> plan_types(std::span<const gguf::Tensor> tensors, const ModelTraits& traits,
                            const TypeRequest& request);
/// The types under a mix by itself.
std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, QuantizeMix mix);
inline std::vector<TensorType> choose_types(const gguf::Reader& file, QuantizeMix mix) {
  return choose_types(file.tensors(), mix);
}
/// The types for a mix of a single type for all tensors that a mix would change.
std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, TensorType type);

/// Whether mixes leave the tensor's type as it is.
bool keeps_type(const gguf::Tensor& tensor);
/// Whether the tensor's rows are whole blocks of the type.
bool has_whole_blocks(TensorType type, const gguf::Tensor& tensor);

}  // namespace cairn::convert
