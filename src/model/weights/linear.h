/// A matrix of a model's weights and what belongs to its product.
#pragma once

#include <vector>

#include "kernels/device_memory.h"
#include "kernels/low_rank.h"
#include "kernels/matmul_operations.h"
#include "kernels/weight_store.h"

namespace cairn::model {

/// y = W x + b. With experts, weight [experts, rows, cols] and bias [experts, rows].
struct Linear {
  kernels::Weight weight;
  kernels::Buffer bias;                    ///< empty if there is none
  std::vector<kernels::LowRank> adapters;  ///< LoRA

  kernels::MatmulTarget to(float* out) const { return {&weight, bias.floats(), out, adapters}; }
};

}  // namespace cairn::model
