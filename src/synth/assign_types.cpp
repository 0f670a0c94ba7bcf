// Assigns types to matrices.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "convert/quantize.h"
#include "gguf/reader.h"
#include "quant/codec.h"
#include "synth/tensors.h"

namespace cairn::synth {
namespace {

std::string type_list() {
  std::string list;
  for (const TensorTypeInfo& info : tensor_types()) {
    if (quant::can_decode(info.type)) list += fmt::format("{}{}", list.empty() ? "" : ", ", info.name);
  }
  return list;
}

bool has_weights(const TensorPlan& tensor) { return tensor.role == Role::kMatrix || tensor.role == Role::kTable; }

Result<TensorType> type_named(std::string_view name, bool of_table) {
  const auto type = tensor_type_named(name);
  if (type.has_value() && (quant::can_decode(*type) || (of_table && *type == TensorType::kI8))) return *type;
  return fail(Code::kInvalidArgument, "'{}' is no type of weights; choose one of {}", name, type_list());
}

Result<std::regex> pattern_of(const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    return fail(Code::kInvalidArgument, "'{}' is no regular expression: {}", text, error.what());
  }
}

Result<void> apply(const TypeRule& rule, std::span<TensorPlan> tensors) {
  CAIRN_TRY(const std::regex pattern, pattern_of(rule.pattern));
  const auto matches = [&](const TensorPlan& tensor) {
    return has_weights(tensor) && std::regex_search(tensor.name, pattern);
  };
  const bool only_tables = std::ranges::all_of(
      tensors, [&](const TensorPlan& tensor) { return tensor.role == Role::kTable || !matches(tensor); });
  CAIRN_TRY(const TensorType type, type_named(rule.type, only_tables));
  const TensorTypeInfo& info = tensor_type_info(type);
  bool found = false;
  for (TensorPlan& tensor : tensors) {
    if (!matches(tensor)) continue;
    found = true;
    if (tensor.shape[0] % info.block_elements != 0) {
      return fail_at(fmt::format("tensor {}", tensor.name), Code::kInvalidArgument,
                     "its rows have {} elements, which blocks of {} (of {}) do not divide; choose another type for it, "
                     "such as Q8_0 or F16, or another width",
                     tensor.shape[0], info.block_elements, info.name);
    }
    tensor.type = type;
  }
  if (found || rule.is_preset) return {};
  return fail(Code::kInvalidArgument, "no matrix of this model has a name that '{}' matches", rule.pattern);
}

}  // namespace

Result<int64_t> assign_types(std::span<TensorPlan> tensors, std::string_view type, std::span<const TypeRule> rules) {
  std::vector<gguf::Tensor> shapes;
  for (const TensorPlan& tensor : tensors) shapes.push_back({tensor.name, tensor.type, tensor.shape, {}});
  std::vector<TensorType> chosen;
  int32_t block = 1;
  if (const auto mix = convert::quantize_mix_named(type)) {
    chosen = convert::choose_types(shapes, *mix);
    block = tensor_type_info(file_type_main(convert::quantize_mix_info(*mix).name).value()).block_elements;
  } else {
    CAIRN_TRY(const TensorType one, type_named(type, false));
    chosen = convert::choose_types(shapes, one);
    block = tensor_type_info(one).block_elements;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (has_weights(tensors[i])) tensors[i].type = chosen[i];
  }
  for (const TypeRule& rule : rules) CAIRN_TRY_VOID(apply(rule, tensors));
  int64_t misfits = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_changed = has_weights(tensors[i]) && chosen[i] != TensorType::kF32;
    if (is_changed && tensors[i].type == chosen[i] && tensors[i].shape[0] % block != 0) ++misfits;
  }
  for (TensorPlan& tensor : tensors) {
    if (tensor.role == Role::kTable && tensor.type == TensorType::kI8) tensor.shape[0] += tensor.shape[0] / kScaleBlock;
  }
  return misfits;
}

}  // namespace cairn::synth
