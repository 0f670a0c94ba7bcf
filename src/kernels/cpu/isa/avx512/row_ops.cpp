#include "kernels/cpu/isa/avx512/vector.h"
#include "kernels/cpu/rows/row_ops_body.h"

namespace cairn::kernels::cpu {

constinit const RowKernels kAvx512Rows = make_row_kernels<Vector>();

}  // namespace cairn::kernels::cpu
