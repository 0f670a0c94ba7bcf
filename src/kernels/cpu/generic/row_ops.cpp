#include "kernels/cpu/generic/vector.h"
#include "kernels/cpu/row_ops_body.h"

namespace cairn::cpu {

constinit const RowKernels kGenericRows = make_row_kernels<Vector>();

}  // namespace cairn::cpu
