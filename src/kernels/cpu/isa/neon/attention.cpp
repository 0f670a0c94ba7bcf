#include "kernels/cpu/attention/attention_body.h"
#include "kernels/cpu/isa/neon/vector.h"

namespace cairn::kernels::cpu {

constinit const AttentionKernels kNeonAttention = make_attention_kernels<Vector>(nullptr);

}  // namespace cairn::kernels::cpu
