// The rows of tensors as checkpoints store them: floats, FP8 with scales, MXFP4, integers.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "convert/huggingface/rows.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

// FP8 of the OCP specification: sign, `exponent_bits`, the rest mantissa. E4M3 has no infinity, and NaN only where all
// bits are set; E5M2 is like IEEE's formats.
float fp8_value(unsigned code, int exponent_bits) {
  const int mantissa_bits = 7 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
  const float sign = (code & 0x80u) != 0 ? -1.0f : 1.0f;
  const bool e4m3 = exponent_bits == 4;
  if (e4m3 && (code & 0x7fu) == 0x7fu) return NAN;
  if (!e4m3 && exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  const float one = static_cast<float>(1 << mantissa_bits);
  const float fraction = static_cast<float>(mantissa) / one;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0f + fraction, exponent - bias);
}

std::array<float, 256> byte_table(StoredType type) {
  std::array<float, 256> table{};
  for (unsigned code = 0; code < 256; ++code) {
    switch (type) {
      case StoredType::kF8E4M3:
        table[code] = fp8_value(code, 4);
        break;
      case StoredType::kF8E5M2:
        table[code] = fp8_value(code, 5);
        break;
      case StoredType::kF8E8M0:
        table[code] = code == 255 ? NAN : std::ldexp(1.0f, static_cast<int>(code) - 127);
        break;
      case StoredType::kI8:
        table[code] = static_cast<float>(static_cast<int8_t>(code));
        break;
      default:
        table[code] = static_cast<float>(code);
        break;
    }
  }
  return table;
}

const std::array<float, 256>& table_of(StoredType type) {
  static const std::array<float, 256> e4m3 = byte_table(StoredType::kF8E4M3), e5m2 = byte_table(StoredType::kF8E5M2),
                                      e8m0 = byte_table(StoredType::kF8E8M0), i8 = byte_table(StoredType::kI8),
                                      u8 = byte_table(StoredType::kU8);
  switch (type) {
    case StoredType::kF8E4M3:
      return e4m3;
    case StoredType::kF8E5M2:
      return e5m2;
    case StoredType::kF8E8M0:
      return e8m0;
    case StoredType::kI8:
      return i8;
    default:
      return u8;
  }
}

template <class T>
void widen(const std::byte* from, std::span<float> out) {
  for (float& value : out) {
    T number;
    std::memcpy(&number, from, sizeof number);
    value = static_cast<float>(number);
    from += sizeof number;
  }
}

void decode(StoredType type, std::span<const std::byte> from, std::span<float> out) {
  switch (type) {
    case StoredType::kF32:
      return quant::decode_row(TensorType::kF32, from, out);
    case StoredType::kF16:
      return quant::decode_row(TensorType::kF16, from, out);
    case StoredType::kBF16:
      return quant::decode_row(TensorType::kBF16, from, out);
    case StoredType::kF64:
      return widen<double>(from.data(), out);
    case StoredType::kI64:
      return widen<int64_t>(from.data(), out);
    case StoredType::kI32:
      return widen<int32_t>(from.data(), out);
    case StoredType::kI16:
      return widen<int16_t>(from.data(), out);
    default:
      break;
  }
  const auto& table = table_of(type);
  for (size_t i = 0; i < out.size(); ++i) out[i] = table[static_cast<uint8_t>(from[i])];
}

class StoredRows : public Rows {
 public:
  StoredRows(const Checkpoint& checkpoint, StoredTensor tensor, int64_t length)
      : Rows(length == 0 ? 0 : tensor.elements() / length, length),
        checkpoint_(checkpoint),
        tensor_(std::move(tensor)) {}
  void read(int64_t begin, int64_t end, float* out) const override {
    decode(tensor_.type, part(begin, end), std::span(out, static_cast<size_t>((end - begin) * length())));
  }
  void release(int64_t begin, int64_t end) const override { checkpoint_.release(part(begin, end)); }

 private:
  std::span<const std::byte> part(int64_t begin, int64_t end) const {
    const int64_t bytes = length() * stored_type_bytes(tensor_.type);
    return tensor_.bytes.subspan(static_cast<size_t>(begin * bytes), static_cast<size_t>((end - begin) * bytes));
  }

  const Checkpoint& checkpoint_;
  StoredTensor tensor_;
};

class IntegerRows final : public StoredRows {
 public:
  IntegerRows(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t length)
      : StoredRows(checkpoint, tensor, length) {}
  TensorType blocks() const override { return TensorType::kI32; }
  void read_blocks(int64_t begin, int64_t end, std::byte* out) const override {
    std::vector<float> values(static_cast<size_t>((end - begin) * length()));
    read(begin, end, values.data());
    for (const float value : values) {  // ids of experts, which a float holds exactly
      const auto number = static_cast<int32_t>(value);
      std::memcpy(out, &number, sizeof number);
      out += sizeof number;
    }
  }
};

// The sizes of the matrices of a tensor, and how many there are.
struct Matrices {
  int64_t count = 1, rows = 1, columns = 1;
};
Matrices matrices_of(const std::vector<int64_t>& shape) {
  Matrices sizes;
  const size_t n = shape.size();
  if (n >= 1) sizes.columns = shape[n - 1];
  if (n >= 2) sizes.rows = shape[n - 2];
  for (size_t i = 0; i + 2 < n; ++i) sizes.count *= shape[i];
  return sizes;
}

class ScaledRows final : public StoredRows {
 public:
  ScaledRows(const Checkpoint& checkpoint, const StoredTensor& tensor, Matrices weights, Matrices scales,
             std::vector<float> values)
      : StoredRows(checkpoint, tensor, weights.columns),
        rows_(weights.rows),
        scales_(scales),
        block_rows_((weights.rows + scales.rows - 1) / scales.rows),
        block_columns_((weights.columns + scales.columns - 1) / scales.columns),
        values_(std::move(values)) {
    // Blocks are powers of two, so that a last one may be cut: 128 for 1 to 128 rows that are left.
    block_rows_ = scales.rows == 1 ? weights.rows : whole_block(block_rows_, weights.rows, scales.rows);
    block_columns_ =
        scales.columns == 1 ? weights.columns : whole_block(block_columns_, weights.columns, scales.columns);
  }
  bool fits() const { return block_rows_ > 0 && block_columns_ > 0; }
  void read(int64_t begin, int64_t end, float* out) const override {
    StoredRows::read(begin, end, out);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t matrix = scales_.count == 1 ? 0 : row / rows_;
      const float* scale = values_.data() + (matrix * scales_.rows + row % rows_ / block_rows_) * scales_.columns;
      for (int64_t column = 0; column < length(); ++column) *out++ *= scale[column / block_columns_];
    }
  }

 private:
  // The size of blocks of which `blocks` cover `size`: the least power of two, or what divides it. 0 if there is none.
  static int64_t whole_block(int64_t least, int64_t size, int64_t blocks) {
    int64_t block = 1;
    while (block < least) block *= 2;
    if ((size + block - 1) / block == blocks) return block;
    return size % blocks == 0 ? size / blocks : 0;
  }

  int64_t rows_;
  Matrices scales_;
  int64_t block_rows_, block_columns_;
  std::vector<float> values_;
};

class Mxfp4Rows final : public Rows {
 public:
  Mxfp4Rows(const Checkpoint& checkpoint, StoredTensor packed, StoredTensor scale, int64_t count, int64_t length)
      : Rows(count, length), checkpoint_(checkpoint), packed_(std::move(packed)), scale_(std::move(scale)) {}
  void read(int64_t begin, int64_t end, float* out) const override {
    std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(TensorType::kMXFP4, length())));
    for (int64_t row = begin; row < end; ++row, out += length()) {
      read_blocks(row, row + 1, blocks.data());
      quant::decode_row(TensorType::kMXFP4, blocks, std::span(out, static_cast<size_t>(length())));
    }
  }
  TensorType blocks() const override { return TensorType::kMXFP4; }
  void read_blocks(int64_t begin, int64_t end, std::byte* out) const override {
    const int64_t per_row = length() / kBlock;
    for (int64_t block = begin * per_row; block < end * per_row; ++block) {
      const std::byte* from = packed_.bytes.data() + block * (kBlock / 2);
      *out++ = scale_.bytes[static_cast<size_t>(block)];
      // Element i is in half i % 2 of byte i / 2 there, and here in the low half of byte i, or the high one of i - 16.
      for (int i = 0; i < kBlock / 2; ++i) *out++ = half(from, i) | (half(from, i + kBlock / 2) << 4);
    }
  }
  void release(int64_t begin, int64_t end) const override {
    const int64_t bytes = length() / 2;
    checkpoint_.release(
        packed_.bytes.subspan(static_cast<size_t>(begin * bytes), static_cast<size_t>((end - begin) * bytes)));
  }

  static constexpr int kBlock = 32;

 private:
  static std::byte half(const std::byte* from, int element) {
    return element % 2 == 0 ? from[element / 2] & std::byte{15} : from[element / 2] >> 4;
  }

  const Checkpoint& checkpoint_;
  StoredTensor packed_, scale_;
};

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

RowsPtr stored_rows(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t length) {
  CAIRN_CHECK(length > 0 && tensor.elements() % length == 0);
  return std::make_shared<StoredRows>(checkpoint, tensor, length);
}

RowsPtr stored_integers(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t length) {
  CAIRN_CHECK(length > 0 && tensor.elements() % length == 0);
  return std::make_shared<IntegerRows>(checkpoint, tensor, length);
}

Result<RowsPtr> scaled_rows(const Checkpoint& checkpoint, const StoredTensor& tensor, const StoredTensor& scale) {
  const Matrices weights = matrices_of(tensor.shape);
  Matrices scales = matrices_of(scale.shape);
  if (scale.shape.size() == 1 && scale.elements() == weights.rows) scales = {1, weights.rows, 1};
  std::vector<float> values(static_cast<size_t>(scale.elements()));
  decode(scale.type, scale.bytes, values);
  const bool possible = tensor.elements() > 0 && scale.elements() > 0 && scales.rows <= weights.rows &&
                        scales.columns <= weights.columns && (scales.count == weights.count || scales.count == 1);
  if (possible) {
    auto rows = std::make_shared<ScaledRows>(checkpoint, tensor, weights, scales, std::move(values));
    if (rows->fits()) return rows;
  }
  return fail(Code::kCorruptFile, "its scales have the shape {}, which does not fit its own, {}",
              shape_text(scale.shape), shape_text(tensor.shape));
}

Result<RowsPtr> mxfp4_rows(const Checkpoint& checkpoint, const StoredTensor& packed, const StoredTensor& scale) {
  // [..., rows, blocks, 16] with [..., rows, blocks], or [rows, blocks * 16] with [rows, blocks].
  const bool apart = packed.shape.size() == scale.shape.size() + 1;
  const int64_t blocks = scale.shape.empty() ? 0 : scale.shape.back();
  const int64_t row = packed.shape.empty() ? 0 : apart ? packed.shape.back() * blocks : packed.shape.back();
  if (blocks <= 0 || row != blocks * (Mxfp4Rows::kBlock / 2) ||
      packed.elements() != scale.elements() * (Mxfp4Rows::kBlock / 2)) {
    return fail(Code::kCorruptFile, "MXFP4 weights of the shape {} do not fit their scales, {}",
                shape_text(packed.shape), shape_text(scale.shape));
  }
  return std::make_shared<Mxfp4Rows>(checkpoint, packed, scale, scale.elements() / blocks, blocks * Mxfp4Rows::kBlock);
}

}  // namespace cairn::convert
