#include "kernels/cpu/isa/avx2/vector.h"
#include "kernels/cpu/rows/row_ops_body.h"

namespace cairn::kernels::cpu {

constinit const RowKernels kAvx2Rows = make_row_kernels<Vector>();

}  // namespace cairn::kernels::cpu
