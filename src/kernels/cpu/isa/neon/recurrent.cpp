#include "kernels/cpu/isa/neon/vector.h"
#include "kernels/cpu/recurrent/recurrent_body.h"

namespace cairn::kernels::cpu {

constinit const RecurrentKernels kNeonRecurrent = make_recurrent_kernels<Vector>();

}  // namespace cairn::kernels::cpu
