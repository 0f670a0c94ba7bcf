#include "kernels/cpu/isa/avx512/vector.h"
#include "kernels/cpu/recurrent/recurrent_body.h"

namespace cairn::kernels::cpu {

constinit const RecurrentKernels kAvx512Recurrent = make_recurrent_kernels<Vector>();

}  // namespace cairn::kernels::cpu
