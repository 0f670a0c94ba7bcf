/// Rows of quantised blocks <-> floats: the truth that every kernel is tested against. Scalar, exact, not fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensor_type.h"

namespace cairn {

/// Whether decode_row understands the type: all of tensor_types() but the integer and F64 ones.
bool can_decode(TensorType type);
/// Whether encode_row does: F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K.
bool can_encode(TensorType type);

/// Decodes out.size() elements (a multiple of the type's block) from `blocks`, which holds at least row_bytes(type,
/// out.size()) bytes. Bit-exact with the format's definition: products and sums in float32 in the order it gives.
void decode_row(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

/// The largest magnitude that encode_row keeps: larger elements become infinite in F16 and BF16 and are cut to it in
/// the block types. For a type that can be encoded.
float encodable_max(TensorType type);

/// Encodes in.size() elements (a multiple of the block) into `blocks`. Infinite and NaN elements must have been refused
/// before.
void encode_row(TensorType type, std::span<const float> in, std::span<std::byte> blocks);

}  // namespace cairn
