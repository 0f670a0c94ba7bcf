/// The tensors of a shape: names and dimensions as in published files, and the kind of numbers in each.
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
  kMatrix,       ///< normal, with a deviation that keeps the size of activations
  kTable,        ///< the same, of an engram: its rows may be I8, as E4M3 numbers with scales behind them
  kNorm,         ///< near 1
  kBias,         ///< near 0
  kMixScale,     ///< for hyper-connections: below 1
  kRate,         ///< of a state that is forgotten: below 0
  kExpertIds,    ///< for each token as many different experts as it uses
  kRopeFactors,  ///< of pairs: 1 for the first quarter, which turns, and so much for the rest that it stands still
};

struct TensorPlan {
  std::string name;
  std::vector<int64_t> shape;  ///< row length first
  Role role = Role::kMatrix;
  TensorType type = TensorType::kF32;
  int64_t bytes = 0;

  int64_t elements() const;
};

/// What the model's loader asks for when it has read the shape's metadata. All are F32 except the expert ids. `shape`
/// is complete. Errors: those of the keys' reader, as kInvalidArgument.
Result<std::vector<TensorPlan>> tensors_of(const Shape& shape);

/// Gives matrices and tables their types: `type` as for `cairn quantize` (a mix, or any tensor type for all tensors
/// that a mix would change), then the rules in order, so that the last rule that matches a name counts. Returns the
/// number of matrices whose rows did not fit `type` (choose_types()). Errors, kInvalidArgument: an unknown type, a
/// pattern that is no regular expression or (unless it is a preset's) matches no matrix, a rule's type whose block does
/// not divide the rows.
Result<int64_t> assign_types(std::span<TensorPlan> tensors, std::string_view type, std::span<const TypeRule> rules);

}  // namespace cairn::synth
