#include "kernels/cpu/isa/generic/vector.h"
#include "kernels/cpu/rows/row_ops_body.h"

namespace cairn::kernels::cpu {

constinit const RowKernels kGenericRows = make_row_kernels<Vector>();

}  // namespace cairn::kernels::cpu
