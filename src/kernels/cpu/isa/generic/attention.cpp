#include "kernels/cpu/attention/attention_body.h"
#include "kernels/cpu/isa/generic/vector.h"

namespace cairn::kernels::cpu {

constinit const AttentionKernels kGenericAttention = make_attention_kernels<Vector>(nullptr);

}  // namespace cairn::kernels::cpu
