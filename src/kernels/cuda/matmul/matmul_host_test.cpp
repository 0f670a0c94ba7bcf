// The decoders of weights/blocks.cuh, on which products and embeddings on the GPU are built, give the same bits as
// quant's. They are host functions as well, so this test needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/tensor_type.h"
#include "kernels/cuda/weights/formats.cuh"
#include "kernels/cuda/weights/panels_test_support.h"
#include "quant/codec.h"

namespace cairn::kernels::cuda {
namespace {

// Row counts of less than a panel, one panel, and several with an incomplete one; and blocks per row.
constexpr std::pair<int64_t, uint32_t> kShapes[] = {{5, 1}, {16, 3}, {41, 8}};

// Rows of random bytes as in a file, and their panels.
template <class F>
class RandomBlocks {
 public:
  RandomBlocks(int64_t rows, uint32_t blocks, uint32_t seed) : blocks_(blocks) {
    std::mt19937 random(seed);
    bytes_.resize(static_cast<size_t>(rows * row_size()));
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random());
    panels_ = panels_of<F>(bytes_, static_cast<size_t>(rows), blocks);
  }
  uint32_t groups() const { return blocks_ * F::kGroups; }
  GroupPlace place(int64_t row, uint32_t group) const {
    const uint8_t* panel = panels_.data() + row / kPanelRows * kPanelRows * row_size();
    return group_place<F>(panel, blocks_, static_cast<uint32_t>(row % kPanelRows), group);
  }
  std::vector<float> decoded(int64_t row) const {
    std::vector<float> values(static_cast<size_t>(groups()) * kGroupColumns);
    const auto size = static_cast<size_t>(row_size());
    quant::decode_row(F::kType, std::as_bytes(std::span(bytes_).subspan(static_cast<size_t>(row) * size, size)),
                      values);
    return values;
  }

 private:
  int64_t row_size() const { return int64_t{blocks_} * F::kBytes; }

  uint32_t blocks_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> panels_;
};

int code_of(const Octet& octet, int i) { return static_cast<int8_t>(octet.words[i / 4] >> (i % 4 * 8) & 255u); }

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b) || (a == 0 && b == 0);
}

template <class F>
std::vector<float> decoded_here(const RandomBlocks<F>& blocks, int64_t row) {
  std::vector<float> values;
  for (uint32_t group = 0; group < blocks.groups(); ++group) {
    const GroupPlace place = blocks.place(row, group);
    const GroupScales scales = F::scales(place);
    for (int octet = 0; octet < kGroupOctets; ++octet) {
      const Octet codes = F::codes(place, octet);
      for (int i = 0; i < 8; ++i) values.push_back(weight_of<F>(scales, code_of(codes, i), octet / 2));
    }
  }
  return values;
}

template <class F>
class BlockFormat : public testing::Test {};
template <class List>
struct Types;
template <class... F>
struct Types<FormatList<F...>> {
  using type = testing::Types<F...>;
};
TYPED_TEST_SUITE(BlockFormat, Types<AllFormats>::type);

TYPED_TEST(BlockFormat, HasTheBlocksOfItsType) {
  const TensorTypeInfo& info = tensor_type_info(TypeParam::kType);
  EXPECT_EQ(TypeParam::kBytes, info.block_bytes);
  EXPECT_EQ(TypeParam::kGroups * kGroupColumns, info.block_elements);
}

TYPED_TEST(BlockFormat, DecodesToTheBitsOfQuant) {
  for (const auto& [rows, row_blocks] : kShapes) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      const RandomBlocks<TypeParam> blocks(rows, row_blocks, seed);
      for (int64_t r = 0; r < rows; ++r) {
        const std::vector<float> expected = blocks.decoded(r);
        const std::vector<float> got = decoded_here(blocks, r);
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(same(got[i], expected[i]))
              << got[i] << " for " << expected[i] << ", row " << r << " of " << rows << ", column " << i;
        }
      }
    }
  }
}

TEST(Words, LooksUpEveryNibble) {
  constexpr ByteTable kTable = byte_table(quant::kIq4Values);
  for (uint32_t low = 0; low < 16; ++low) {
    for (uint32_t high = 0; high < 16; ++high) {
      // The pair at each of the four places, with another nibble at the others.
      for (int place = 0; place < 4; ++place) {
        const uint32_t others = 0x5a5a5a5au & ~(255u << (8 * place));
        const uint32_t bytes = others | (low | high << 4) << (8 * place);
        EXPECT_EQ(static_cast<int8_t>(look_up(kTable, bytes, false) >> (8 * place)), quant::kIq4Values[low]);
        EXPECT_EQ(static_cast<int8_t>(look_up(kTable, bytes, true) >> (8 * place)), quant::kIq4Values[high]);
      }
    }
  }
}

}  // namespace
}  // namespace cairn::kernels::cuda
