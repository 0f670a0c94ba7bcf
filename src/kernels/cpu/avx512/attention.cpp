#include "kernels/cpu/attention_body.h"
#include "kernels/cpu/avx512/vector.h"

namespace cairn::cpu {

constinit const AttentionKernels kAvx512Attention = make_attention_kernels<Vector>();

}  // namespace cairn::cpu
