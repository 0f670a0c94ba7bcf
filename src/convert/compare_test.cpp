#include "convert/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "convert/check_weights.h"
#include "convert/edit.h"
#include "convert/quantize.h"
#include "convert/test_files.h"

namespace cairn::convert {
namespace {

using ::testing::ElementsAre;

class Compare : public ModelFiles {
 protected:
  // A copy with the byte at `offset` from the end changed.
  std::filesystem::path damaged(const std::filesystem::path& in, size_t offset_from_end) {
    std::string bytes = bytes_of(in);
    bytes[bytes.size() - offset_from_end] ^= 1;
    std::ofstream(path("damaged.gguf"), std::ios::binary) << bytes;
    return path("damaged.gguf");
  }
  // A file with one tensor of these bytes.
  gguf::Reader with_tensor(TensorType type, int64_t columns, const std::vector<std::byte>& bytes) {
    auto writer = gguf::Writer::create(path("tensor.gguf"));
    writer->declare("t", type, std::array<int64_t, 2>{columns, std::ssize(bytes) / row_bytes(type, columns)});
    EXPECT_TRUE(writer->write(bytes) && writer->finish());
    return opened(path("tensor.gguf"));
  }
};

TEST_F(Compare, AFileIsTheSameAsItself) {
  const gguf::Reader a = opened(fixture("quant-gpt-oss-mxfp4"));
  const Comparison found = compare(a, a);
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.tensors_compared, std::ssize(a.tensors()));
  EXPECT_EQ(found.keys_compared, std::ssize(a.metadata().values()));
  EXPECT_EQ(found.bytes_compared, Contents::of(a).tensor_bytes());
}

TEST_F(Compare, FindsASingleBit) {
  const auto in = written("in.gguf");
  const gguf::Reader a = opened(in), b = opened(damaged(in, 10));
  const Comparison found = compare(a, b);
  EXPECT_TRUE(found.keys.empty());
  ASSERT_EQ(found.tensors.size(), 1u);
  EXPECT_EQ(found.tensors[0].name, "third.bias");
  EXPECT_EQ(found.tensors[0].bytes, 1);
  EXPECT_EQ(found.tensors[0].first_byte, 4 * 8 * 4 - 10);
}

TEST_F(Compare, FindsKeysThatDiffer) {
  const auto in = written("in.gguf");
  ASSERT_TRUE(edit_metadata(
      in, path("b.gguf"),
      {.set = {*parse_assignment("zebra:i64=-5"), *parse_assignment("a.number=0.2"), *parse_assignment("new=1")},
       .remove = {"flag"}}));
  const gguf::Reader a = opened(in), b = opened(path("b.gguf"));
  const Comparison found = compare(a, b);
  std::vector<std::string> keys;
  for (const KeyDifference& key : found.keys) keys.emplace_back(key.key);
  EXPECT_THAT(keys, ElementsAre("a.number", "flag", "new", "zebra"));
  EXPECT_EQ(found.keys[1].b, nullptr);
  EXPECT_EQ(found.keys[2].a, nullptr);
  EXPECT_TRUE(found.tensors.empty());
}

TEST_F(Compare, FindsTypesShapesAndMissingTensors) {
  const auto in = written("in.gguf", 0, 32);
  const auto shorter = written("shorter.gguf", 0, 31);
  const gguf::Reader a = opened(in), b = opened(shorter);
  EXPECT_EQ(compare(a, b).tensors.size(), 3u);
  EXPECT_FALSE(compare(a, b).tensors[0].same_layout());
  auto writer = gguf::Writer::create(path("other.gguf"));
  writer->declare("first.weight", TensorType::kF16, std::array<int64_t, 2>{8, 32});
  writer->declare("another", TensorType::kF16, std::array<int64_t, 1>{8});
  ASSERT_TRUE(writer->skip_rest() && writer->finish());
  const gguf::Reader c = opened(path("other.gguf"));
  const Comparison found = compare(a, c);
  ASSERT_EQ(found.tensors.size(), 4u);
  EXPECT_EQ(found.tensors[0].b->type, TensorType::kF16);
  EXPECT_EQ(found.tensors[1].b, nullptr);
  EXPECT_EQ(found.tensors[3].name, "another");
  EXPECT_EQ(found.tensors[3].a, nullptr);
}

TEST_F(Compare, WeightsOfTheFixturesAreFinite) {
  const WeightCheck found = check_weights(opened(fixture("quant-gpt-oss-mxfp4")), 2);
  EXPECT_TRUE(found.bad.empty());
  EXPECT_GT(found.tensors, 0);
}

TEST_F(Compare, FindsWeightsThatAreNotFinite) {
  std::vector<float> values(64 * 3, 1.0f);
  values[64 + 5] = std::numeric_limits<float>::quiet_NaN();
  values[64 + 7] = -std::numeric_limits<float>::infinity();
  const auto raw = std::as_bytes(std::span(values));
  const gguf::Reader file = with_tensor(TensorType::kF32, 64, {raw.begin(), raw.end()});
  int64_t bytes = 0;
  const WeightCheck found = check_weights(file, 1, [&](const CopyProgress& now) { bytes = now.bytes_done; });
  ASSERT_EQ(found.bad.size(), 1u);
  EXPECT_EQ(found.bad[0].weights, 2);
  EXPECT_EQ(found.bad[0].row, 1);
  EXPECT_EQ(found.bad[0].column, 5);
  EXPECT_NE(found.bad[0].value, found.bad[0].value) << "a NaN";
  EXPECT_EQ(bytes, std::ssize(raw));
}

TEST_F(Compare, FindsScalesOfBlocksThatAreNotFinite) {
  // Two blocks, the second with an infinite scale (half precision 0x7c00 in the first two bytes).
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kIQ4_XS}) {
    const TensorTypeInfo& info = tensor_type_info(type);
    std::vector<std::byte> blocks(static_cast<size_t>(2 * info.block_bytes), std::byte{1});
    blocks[static_cast<size_t>(info.block_bytes)] = std::byte{0x00};
    blocks[static_cast<size_t>(info.block_bytes) + 1] = std::byte{0x7c};
    const gguf::Reader file = with_tensor(type, info.block_elements, blocks);
    const WeightCheck found = check_weights(file, 2);
    ASSERT_EQ(found.bad.size(), 1u) << info.name;
    EXPECT_EQ(found.bad[0].row, 1) << info.name;
  }
}

TEST_F(Compare, IntegersAreNotChecked) {
  const gguf::Reader file = with_tensor(TensorType::kI32, 4, std::vector<std::byte>(16, std::byte{0xff}));
  const WeightCheck found = check_weights(file, 1);
  EXPECT_TRUE(found.bad.empty());
  EXPECT_EQ(found.tensors, 0);
}

}  // namespace
}  // namespace cairn::convert
