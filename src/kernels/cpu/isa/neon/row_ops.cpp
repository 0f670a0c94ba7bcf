#include "kernels/cpu/isa/neon/vector.h"
#include "kernels/cpu/rows/row_ops_body.h"

namespace cairn::kernels::cpu {

constinit const RowKernels kNeonRows = make_row_kernels<Vector>();

}  // namespace cairn::kernels::cpu
