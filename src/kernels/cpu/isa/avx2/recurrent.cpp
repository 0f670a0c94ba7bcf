#include "kernels/cpu/isa/avx2/vector.h"
#include "kernels/cpu/recurrent/recurrent_body.h"

namespace cairn::kernels::cpu {

constinit const RecurrentKernels kAvx2Recurrent = make_recurrent_kernels<Vector>();

}  // namespace cairn::kernels::cpu
