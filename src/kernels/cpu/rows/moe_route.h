/// MoE routing: chooses the experts of one row.
#pragma once

#include <cstdint>

#include "kernels/cpu/rows/row_ops.h"
#include "kernels/routing.h"

namespace cairn::kernels::cpu {

/// Floats of scratch memory for a row.
constexpr int64_t route_floats(const RouteParams& params) { return int64_t{2} * params.experts + params.groups; }

/// Backend::route of one row: logits [experts] to ids and weights [used]; `working` has route_floats() floats.
void route_row(const RowKernels& kernels, const RouteParams& params, const float* logits, float* working, int32_t* ids,
               float* weights);

}  // namespace cairn::kernels::cpu
