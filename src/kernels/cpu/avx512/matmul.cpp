#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
namespace cairn::cpu {
const MatmulKernels kAvx512Matmul = kGenericMatmul;
}  // namespace cairn::cpu
#endif
