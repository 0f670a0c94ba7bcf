// The decoders of blocks.cuh, which products and embeddings on the GPU are made of, against quant's: same bits. They
// are functions of the host as well, so this test needs no GPU.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/tensor_type.h"
#include "kernels/cuda/formats.cuh"
#include "quant/codec.h"

namespace cairn::cuda {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kCols = 1024;

// Rows of random bytes, one after the other as in a file: small blocks begin at every place that they can. The last
// word is whole, since blocks are read through aligned words.
class RandomBlocks {
 public:
  RandomBlocks(TensorType type, uint32_t seed) : type_(type) {
    std::mt19937 random(seed);
    words_.resize(static_cast<size_t>((kRows * row_bytes(type, kCols) + 3) / 4));
    for (uint32_t& word : words_) word = random();
  }
  const uint8_t* row(int64_t r) const {
    return reinterpret_cast<const uint8_t*>(words_.data()) + r * row_bytes(type_, kCols);
  }
  std::vector<float> decoded(int64_t r) const {
    std::vector<float> values(kCols);
    decode_row(type_, std::as_bytes(std::span(row(r), static_cast<size_t>(row_bytes(type_, kCols)))), values);
    return values;
  }

 private:
  TensorType type_;
  std::vector<uint32_t> words_;
};

int code_of(const Octet& octet, int i) { return static_cast<int8_t>(octet.words[i / 4] >> (i % 4 * 8) & 255u); }

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b) || (a == 0 && b == 0);
}

template <class F>
std::vector<float> decoded_here(const uint8_t* row) {
  std::vector<float> values;
  for (uint32_t group = 0; group < kCols / kGroupColumns; ++group) {
    const GroupPlace place = group_place<F>(row, group);
    const GroupScales scales = F::scales(place.block, place.group);
    for (int octet = 0; octet < kGroupOctets; ++octet) {
      const Octet codes = F::codes(place.block, place.group, octet);
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
  for (uint32_t seed = 0; seed < 16; ++seed) {
    const RandomBlocks blocks(TypeParam::kType, seed);
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<float> expected = blocks.decoded(r);
      const std::vector<float> got = decoded_here<TypeParam>(blocks.row(r));
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(same(got[i], expected[i])) << got[i] << " for " << expected[i] << ", row " << r << ", column " << i;
      }
    }
  }
}

// What the tile kernel's sums and their conversion to float rest on.
TYPED_TEST(BlockFormat, SumsStayExact) {
  int64_t largest_code = 0, largest_factor = 1;
  for (uint32_t seed = 0; seed < 16; ++seed) {
    const RandomBlocks blocks(TypeParam::kType, seed);
    for (uint32_t group = 0; group < kCols / kGroupColumns; ++group) {
      const GroupPlace place = group_place<TypeParam>(blocks.row(seed), group);
      const GroupScales scales = TypeParam::scales(place.block, place.group);
      for (int half = 0; TypeParam::kFactors != Factors::kNone && half < 2; ++half) {
        if (TypeParam::kFactors == Factors::kLarge) {
          const auto number = static_cast<float>(scales.factors[half]);
          EXPECT_EQ(std::bit_cast<uint32_t>(number) & 0xffffu, 0u) << number << " has the bits of a bfloat16";
        } else {
          largest_factor = std::max<int64_t>(largest_factor, std::abs(scales.factors[half]));
        }
      }
      for (int octet = 0; octet < kGroupOctets; ++octet) {
        const Octet codes = TypeParam::codes(place.block, place.group, octet);
        for (int i = 0; i < 8; ++i) largest_code = std::max<int64_t>(largest_code, std::abs(code_of(codes, i)));
      }
    }
  }
  const int64_t largest = largest_code * largest_factor * 127 * kGroupColumns;
  EXPECT_LT(largest, int64_t{1} << 31);
  if (TypeParam::kFactors == Factors::kNone) {
    EXPECT_LT(largest, int64_t{1} << 22);
  }
  // A half's sum times a bfloat16's eight bits.
  if (TypeParam::kFactors == Factors::kLarge) {
    EXPECT_LT(largest / 2, int64_t{1} << (24 - 8));
  }
}

TEST(Words, ABlockIsReadFromWhereverItBegins) {
  std::vector<uint32_t> words(8);
  auto* bytes = reinterpret_cast<uint8_t*>(words.data());
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>(7 * i + 1);
  for (int begin = 0; begin < 4; ++begin) {
    for (int offset = 0; offset < 20; ++offset) {
      if (begin + offset % 4 > 4) continue;
      uint32_t expected = 0;
      std::memcpy(&expected, bytes + begin + offset, sizeof(expected));
      EXPECT_EQ(load_unaligned_word(bytes + begin, offset), expected) << begin << " " << offset;
    }
  }
}

TEST(Words, LooksUpEveryNibble) {
  constexpr ByteTable kTable = byte_table(kIq4Values);
  for (uint32_t low = 0; low < 16; ++low) {
    for (uint32_t high = 0; high < 16; ++high) {
      // The pair at each of the four places, another nibble at the others.
      for (int place = 0; place < 4; ++place) {
        const uint32_t others = 0x5a5a5a5au & ~(255u << (8 * place));
        const uint32_t bytes = others | (low | high << 4) << (8 * place);
        EXPECT_EQ(static_cast<int8_t>(look_up(kTable, bytes, false) >> (8 * place)), kIq4Values[low]);
        EXPECT_EQ(static_cast<int8_t>(look_up(kTable, bytes, true) >> (8 * place)), kIq4Values[high]);
      }
    }
  }
}

}  // namespace
}  // namespace cairn::cuda
