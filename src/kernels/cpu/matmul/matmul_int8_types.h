/// Chooses the function that multiplies a type (see matmul_int8_body.h).
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "kernels/cpu/matmul/matmul_int8_body.h"

namespace cairn::kernels::cpu {
namespace {

/// Lists every type that has panels.
struct Int8Kind {
  TensorType type;
  Int8Type kind;
};
constexpr Int8Kind kInt8Kinds[] = {
    {TensorType::kQ4_0, Int8Type::kQ4_0},        {TensorType::kQ4_1, Int8Type::kQ4_1},
    {TensorType::kQ5_0, Int8Type::kQ5_0},        {TensorType::kQ5_1, Int8Type::kQ5_1},
    {TensorType::kQ8_0, Int8Type::kQ8_0},        {TensorType::kQ2_K, Int8Type::kQ2_K},
    {TensorType::kQ3_K, Int8Type::kQ3_K},        {TensorType::kQ4_K, Int8Type::kQ4_K},
    {TensorType::kQ5_K, Int8Type::kQ5_K},        {TensorType::kQ6_K, Int8Type::kQ6_K},
    {TensorType::kIQ4_NL, Int8Type::kIQ4_NL},    {TensorType::kIQ4_XS, Int8Type::kIQ4_XS},
    {TensorType::kMXFP4, Int8Type::kMXFP4},      {TensorType::kNVFP4, Int8Type::kNVFP4},
    {TensorType::kQ1_0, Int8Type::kQ1_0},        {TensorType::kQ2_0, Int8Type::kQ2_0},
    {TensorType::kIQ1_S, Int8Type::kSmallCodes}, {TensorType::kIQ1_M, Int8Type::kSmallCodes},
    {TensorType::kIQ2_XXS, Int8Type::kCodes},    {TensorType::kIQ2_XS, Int8Type::kCodes},
    {TensorType::kIQ2_S, Int8Type::kCodes},      {TensorType::kIQ3_XXS, Int8Type::kCodes},
    {TensorType::kIQ3_S, Int8Type::kSmallCodes}, {TensorType::kTQ1_0, Int8Type::kSmallCodes},
    {TensorType::kTQ2_0, Int8Type::kSmallCodes},
};

/// matmul_panels of the type if its heads are of kCols columns, otherwise nullptr: types are compiled in two files,
/// which takes half as long.
template <class V, int32_t kCols>
MatmulFunction product_of(TensorType type) {
  MatmulFunction product = nullptr;
  const auto consider = [&]<size_t kAt>() {
    constexpr Int8Kind kKind = kInt8Kinds[kAt];
    if constexpr (int8_traits(kKind.kind).format.block_cols == kCols) {
      if (type == kKind.type) product = Int8Products<V>::template multiply<kKind.kind>;
    }
  };
  [&]<size_t... kAt>(std::index_sequence<kAt...>) {
    (consider.template operator()<kAt>(), ...);
  }(std::make_index_sequence<std::size(kInt8Kinds)>());
  return product;
}

}  // namespace
}  // namespace cairn::kernels::cpu
