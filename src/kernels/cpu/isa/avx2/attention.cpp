#include "kernels/cpu/attention/attention_body.h"
#include "kernels/cpu/attention/attention_pairs_body.h"
#include "kernels/cpu/isa/avx2/vector.h"

namespace cairn::kernels::cpu {
namespace {

constexpr Int16Attention kInt16 = make_int16_attention<Vector>();

}  // namespace

constinit const AttentionKernels kAvx2Attention = make_attention_kernels<Vector>(&kInt16);

}  // namespace cairn::kernels::cpu
