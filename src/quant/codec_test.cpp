// Decoding compared with the reference blocks to the last bit: every type, quantised values and random bit patterns.
#include "quant/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/testing/test_data.h"
#include "quant/blocks.h"
#include "quant/test_data.h"

namespace cairn::quant {
namespace {

const std::string kCodecFixtures = test_data("/quants/");

using quant::kFixtureCols;
using quant::kFixtureRows;

size_t differing(std::span<const float> a, std::span<const float> b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  return count;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double abs_dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::fabs(static_cast<double>(a[i]) * b[i]);
  return sum;
}

// Decodes NAME.bin row by row, and compares the elements with NAME.f32 and the row's dot products with the input.
void check_fixture(const nlohmann::json& entry, TensorType type, const std::string& bin, const std::string& f32,
                   const std::string& dots) {
  const std::vector<std::byte> blocks = quant::read_bytes(kCodecFixtures, entry.at(bin));
  const std::vector<float> expected = quant::read_floats(kCodecFixtures, entry.at(f32));
  const std::vector<float> input = quant::read_floats(kCodecFixtures, "input.f32");
  const int64_t bytes = row_bytes(type, kFixtureCols);
  ASSERT_EQ(static_cast<int64_t>(blocks.size()), kFixtureRows * bytes);
  ASSERT_EQ(static_cast<int64_t>(expected.size()), kFixtureRows * kFixtureCols);
  ASSERT_EQ(static_cast<int64_t>(input.size()), kFixtureCols);
  for (int64_t row = 0; row < kFixtureRows; ++row) {
    std::vector<float> out(kFixtureCols, -1.0f);
    decode_row(type, std::span(blocks).subspan(row * bytes, bytes), out);
    const auto want = std::span(expected).subspan(row * kFixtureCols, kFixtureCols);
    EXPECT_EQ(differing(out, want), 0u) << entry.at(bin) << " row " << row;
    EXPECT_NEAR(dot(out, input), entry.at(dots).at(row).get<double>(), 1e-9 * abs_dot(out, input))
        << entry.at(bin) << " row " << row;
    if (dots == "dot") {
      const double printed = entry.at("dot_abs_sum").at(row).get<double>();  // nine digits
      EXPECT_NEAR(abs_dot(out, input), printed, 1e-6 * printed);
    }
  }
}

TEST(Codec, DecodesEveryFixtureToTheBit) {
  const auto types = quant::fixture_types(kCodecFixtures);
  EXPECT_EQ(std::ssize(types), std::ranges::count_if(tensor_types(), can_decode, &TensorTypeInfo::type));
  for (const auto& entry : types) {
    const auto type = tensor_type_named(entry.at("name").get<std::string>());
    ASSERT_TRUE(type.has_value()) << entry.at("name");
    ASSERT_TRUE(can_decode(*type)) << entry.at("name");
    EXPECT_EQ(static_cast<uint32_t>(*type), entry.at("ggml_type").get<uint32_t>());
    EXPECT_EQ(tensor_type_info(*type).block_elements, entry.at("block_size").get<int>());
    EXPECT_EQ(tensor_type_info(*type).block_bytes, entry.at("bytes_per_block").get<int>());
    check_fixture(entry, *type, "bin", "f32", "dot");
    if (entry.contains("rnd_bin")) check_fixture(entry, *type, "rnd_bin", "rnd_f32", "rnd_dot");
  }
}

TEST(Codec, DecodesAllButIntegersAndDoubles) {
  for (const auto& info : tensor_types()) {
    const bool number = info.type == TensorType::kI8 || info.type == TensorType::kI16 ||
                        info.type == TensorType::kI32 || info.type == TensorType::kI64 || info.type == TensorType::kF64;
    EXPECT_EQ(can_decode(info.type), !number) << info.name;
  }
}

// Kernels read blocks through these structs.
TEST(Codec, BlockStructsHaveTheSizesOfTheTable) {
  const auto expect = [](TensorType type, size_t size, size_t alignment) {
    EXPECT_EQ(static_cast<size_t>(tensor_type_info(type).block_bytes), size) << tensor_type_name(type);
    EXPECT_EQ(alignment, 1u) << tensor_type_name(type);
  };
#define CAIRN_EXPECT_BLOCK(name) expect(TensorType::k##name, sizeof(Block##name), alignof(Block##name))
  CAIRN_EXPECT_BLOCK(Q4_0);
  CAIRN_EXPECT_BLOCK(Q4_1);
  CAIRN_EXPECT_BLOCK(Q5_0);
  CAIRN_EXPECT_BLOCK(Q5_1);
  CAIRN_EXPECT_BLOCK(Q8_0);
  CAIRN_EXPECT_BLOCK(Q2_K);
  CAIRN_EXPECT_BLOCK(Q3_K);
  CAIRN_EXPECT_BLOCK(Q4_K);
  CAIRN_EXPECT_BLOCK(Q5_K);
  CAIRN_EXPECT_BLOCK(Q6_K);
  CAIRN_EXPECT_BLOCK(IQ1_S);
  CAIRN_EXPECT_BLOCK(IQ1_M);
  CAIRN_EXPECT_BLOCK(IQ2_XXS);
  CAIRN_EXPECT_BLOCK(IQ2_XS);
  CAIRN_EXPECT_BLOCK(IQ2_S);
  CAIRN_EXPECT_BLOCK(IQ3_XXS);
  CAIRN_EXPECT_BLOCK(IQ3_S);
  CAIRN_EXPECT_BLOCK(IQ4_NL);
  CAIRN_EXPECT_BLOCK(IQ4_XS);
  CAIRN_EXPECT_BLOCK(TQ1_0);
  CAIRN_EXPECT_BLOCK(TQ2_0);
  CAIRN_EXPECT_BLOCK(MXFP4);
  CAIRN_EXPECT_BLOCK(NVFP4);
  CAIRN_EXPECT_BLOCK(Q1_0);
  CAIRN_EXPECT_BLOCK(Q2_0);
#undef CAIRN_EXPECT_BLOCK
}

// Any bytes form valid blocks: decoding must stay inside its spans and tables, which the sanitizers check.
TEST(Codec, DecodesAnyBytesAtAnyAlignment) {
  for (const auto& info : tensor_types()) {
    if (!can_decode(info.type)) continue;
    for (int fill : {0x00, 0xff, 0x80, 0x7f, 0x5a}) {
      std::vector<std::byte> blocks(static_cast<size_t>(info.block_bytes) * 3 + 1, std::byte(fill));
      std::vector<float> out(static_cast<size_t>(info.block_elements) * 3);
      decode_row(info.type, std::span(blocks).subspan(1), out);
      decode_row(info.type, std::span(blocks).first(0), std::span(out).first(0));
    }
  }
}

}  // namespace
}  // namespace cairn::quant
