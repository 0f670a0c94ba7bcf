// Int8 products of the types with heads of 256 columns.
#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/avxvnni/int8_vector.h"
#include "kernels/cpu/matmul_int8_body.h"

namespace cairn::cpu {

MatmulFunction avxvnni_product_of_256(TensorType type) { return Int8Products<Int8Vector>::product_of_256(type); }

}  // namespace cairn::cpu
#endif
