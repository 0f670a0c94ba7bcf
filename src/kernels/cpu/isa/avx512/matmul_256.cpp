// Int8 products of the types with heads of 256 columns.
#include "kernels/cpu/matmul/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/isa/avx512/int8_vector.h"
#include "kernels/cpu/matmul/matmul_int8_types.h"

namespace cairn::kernels::cpu {

MatmulFunction avx512_product_of_256(TensorType type) { return product_of<Int8Vector, 256>(type); }

}  // namespace cairn::kernels::cpu
#endif
