// Int8 products of the types with heads of 32 columns.
#include "kernels/cpu/matmul/matmul.h"

#include "kernels/cpu/isa/neon/int8_vector.h"
#include "kernels/cpu/matmul/matmul_int8_types.h"

namespace cairn::kernels::cpu {

MatmulFunction neon_product_of_32(TensorType type) { return product_of<Int8Vector, 32>(type); }

}  // namespace cairn::kernels::cpu
