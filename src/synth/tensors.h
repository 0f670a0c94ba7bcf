/// The tensors of a shape: names and dimensions as in published files, and what kind of numbers each holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "synth/shape.h"

namespace cairn::synth {

enum class Role {
  kMatrix,     ///< normal, of a deviation that keeps activations as large as they are
  kNorm,       ///< near 1
  kBias,       ///< near 0
  kMixScale,   ///< of hyper-connections: below 1
  kExpertIds,  ///< for each token as many different experts as it uses
};

struct TensorPlan {
  std::string name;
  std::vector<int64_t> shape;  ///< row length first
  Role role = Role::kMatrix;
  TensorType type = TensorType::kF32;
  int64_t bytes = 0;

  int64_t elements() const;
};

/// All F32 but the expert ids. `shape` is complete.
std::vector<TensorPlan> tensors_of(const Shape& shape);

/// Gives the matrices their types: `type` as `cairn quantize` knows it (a mix, or any tensor type for all that a mix
/// would change), then the rules in order, so that the last that matches a name counts. Returns how many rows' lengths
/// did not fit `type` (choose_types()). Errors, kInvalidArgument: an unknown type, a pattern that is no regular
/// expression or matches no matrix, a rule's type whose block does not divide the rows.
Result<int64_t> assign_types(std::span<TensorPlan> tensors, std::string_view type, std::span<const TypeRule> rules);

}  // namespace cairn::synth
