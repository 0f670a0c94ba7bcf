#include "kernels/cpu/isa/generic/vector.h"
#include "kernels/cpu/recurrent/recurrent_body.h"

namespace cairn::kernels::cpu {

constinit const RecurrentKernels kGenericRecurrent = make_recurrent_kernels<Vector>();

}  // namespace cairn::kernels::cpu
