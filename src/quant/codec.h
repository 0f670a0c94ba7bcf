/// The reference codec between rows of quantised blocks and rows of floats, against which every kernel is tested.
/// Scalar, exact, not fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensor_type.h"

namespace cairn::quant {

/// Whether decode_row supports the type: all of tensor_types() but the integer types and F64.
bool can_decode(TensorType type);
/// Whether encode_row supports the type: the same types.
bool can_encode(TensorType type);

/// Decodes out.size() elements (a multiple of the type's block) from `blocks`, which holds at least row_bytes(type,
/// out.size()) bytes. Bit-exact with the format's definition: products and sums in float32 in the order it gives.
void decode_row(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

/// The largest magnitude that encode_row keeps: larger elements become infinite in F16 and BF16 and are clamped to it
/// in the block types. The type must be one that can be encoded.
float encodable_max(TensorType type);

/// Encodes in.size() elements (a multiple of the block) into `blocks`. `importance` is how much an error of each
/// element matters: the mean square of the activation that the element's column is multiplied by, in.size() finite
/// numbers of at least 0; or empty, when it is not known. The caller must have refused infinite and NaN elements. The
/// bytes depend on the arguments only, not on the processor or the thread.
void encode_row(TensorType type, std::span<const float> in, std::span<const float> importance,
                std::span<std::byte> blocks);

}  // namespace cairn::quant
