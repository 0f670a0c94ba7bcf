#include "kernels/cpu/attention_body.h"
#include "kernels/cpu/avx2/vector.h"

namespace cairn::cpu {

constinit const AttentionKernels kAvx2Attention = make_attention_kernels<Vector>();

}  // namespace cairn::cpu
