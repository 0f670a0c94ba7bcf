/// Which function multiplies a type (see matmul_int8_body.h).
#pragma once

#include "kernels/cpu/matmul_int8_body.h"

namespace cairn::cpu {
namespace {

/// Types are compiled in two files, which takes half as long: those with heads of 32 columns and those of 256.
template <class V>
MatmulFunction product_of_32(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return Int8Products<V>::template multiply<Int8Type::kQ4_0>;
    case TensorType::kQ4_1:
      return Int8Products<V>::template multiply<Int8Type::kQ4_1>;
    case TensorType::kQ5_0:
      return Int8Products<V>::template multiply<Int8Type::kQ5_0>;
    case TensorType::kQ5_1:
      return Int8Products<V>::template multiply<Int8Type::kQ5_1>;
    case TensorType::kQ8_0:
      return Int8Products<V>::template multiply<Int8Type::kQ8_0>;
    case TensorType::kIQ4_NL:
      return Int8Products<V>::template multiply<Int8Type::kIQ4_NL>;
    case TensorType::kMXFP4:
      return Int8Products<V>::template multiply<Int8Type::kMXFP4>;
    default:
      return nullptr;
  }
}

template <class V>
MatmulFunction product_of_256(TensorType type) {
  switch (type) {
    case TensorType::kQ2_K:
      return Int8Products<V>::template multiply<Int8Type::kQ2_K>;
    case TensorType::kQ3_K:
      return Int8Products<V>::template multiply<Int8Type::kQ3_K>;
    case TensorType::kQ4_K:
      return Int8Products<V>::template multiply<Int8Type::kQ4_K>;
    case TensorType::kQ5_K:
      return Int8Products<V>::template multiply<Int8Type::kQ5_K>;
    case TensorType::kQ6_K:
      return Int8Products<V>::template multiply<Int8Type::kQ6_K>;
    case TensorType::kIQ4_XS:
      return Int8Products<V>::template multiply<Int8Type::kIQ4_XS>;
    default:
      return Int8Products<V>::template multiply<Int8Type::kCodes>;
  }
}

}  // namespace
}  // namespace cairn::cpu
