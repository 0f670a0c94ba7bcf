// Layout of quantised weights on the GPU (kernels/cuda/weights/panels.cuh): how loading packs a file's rows.
#include <random>

#include "gpu/lab.h"
#include "kernels/cuda/weights/panels_test_support.h"
#include "quant/codec.h"

namespace cairn::gpu {
namespace {

class GpuPanels : public GpuTest {
 protected:
  static std::vector<uint8_t> random_bytes(size_t count) {
    std::mt19937 random(1);
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
  }
  static std::vector<uint8_t> back(const kernels::Weight& weight, size_t count) {
    std::vector<uint8_t> bytes(count);
    gpu().read(weight.data, std::ssize(bytes), bytes.data());
    return bytes;
  }
};

TEST_F(GpuPanels, PackedBytesAreWhereTheFormulaSays) {
  constexpr size_t kExperts = 3;
  for (const TensorTypeInfo& info : tensor_types()) {
    kernels::cuda::visit_format(kernels::cuda::AllFormats(), info.type, [&]<class F>() {
      for (const auto& [rows, blocks] : {std::pair<size_t, size_t>{1, 4}, {16, 1}, {45, 3}}) {
        SCOPED_TRACE(fmt::format("{}, {} rows of {} blocks", info.name, rows, blocks));
        const size_t file_bytes = rows * blocks * F::kBytes;
        const std::vector<uint8_t> bytes = random_bytes(kExperts * file_bytes);
        const kernels::HostMatrix matrix{.type = F::kType,
                                         .rows = static_cast<int64_t>(rows),
                                         .cols = static_cast<int64_t>(blocks) * info.block_elements,
                                         .experts = kExperts,
                                         .data = reinterpret_cast<const std::byte*>(bytes.data())};
        std::vector<uint8_t> expected;
        for (size_t expert = 0; expert < kExperts; ++expert) {
          const auto own = std::span(bytes).subspan(expert * file_bytes, file_bytes);
          const std::vector<uint8_t> panels = kernels::cuda::panels_of<F>(own, rows, blocks);
          expected.insert(expected.end(), panels.begin(), panels.end());
        }
        const kernels::Weight weight = gpu().load(matrix).value();
        EXPECT_EQ(back(weight, expected.size()), expected);
        EXPECT_EQ(static_cast<int64_t>(weight.memory->bytes()), gpu().load_bytes(matrix));
        EXPECT_GE(weight.memory->bytes(), expected.size());
      }
    });
  }
}

// Larger than the staging buffer, and not a multiple of it; as one matrix and as experts, with whole and with
// incomplete panels.
TEST_F(GpuPanels, LargeMatricesArePackedInPieces) {
  constexpr size_t kBlocks = 256, kRowBytes = kBlocks * kernels::cuda::FormatQ8_0::kBytes, kRows = 2'000;
  ASSERT_GT(kRows * kRowBytes, size_t{16} << 20);
  const std::vector<uint8_t> bytes = random_bytes(kRows * kRowBytes);
  ASSERT_TRUE(gpu().reserve({}).has_value()) << "what earlier tests' weights went through";
  for (const size_t experts : {size_t{1}, size_t{2}, size_t{125}}) {
    SCOPED_TRACE(experts);
    const size_t rows = kRows / experts;
    const kernels::HostMatrix matrix{.type = TensorType::kQ8_0,
                                     .rows = static_cast<int64_t>(rows),
                                     .cols = int64_t{kBlocks} * 32,
                                     .experts = static_cast<int64_t>(experts),
                                     .data = reinterpret_cast<const std::byte*>(bytes.data())};
    const int64_t before = kernels::Buffer::bytes_in_all();
    const kernels::Weight weight = gpu().load(matrix).value();
    std::vector<uint8_t> expected;
    for (size_t expert = 0; expert < experts; ++expert) {
      const auto own = std::span(bytes).subspan(expert * rows * kRowBytes, rows * kRowBytes);
      const std::vector<uint8_t> panels = kernels::cuda::panels_of<kernels::cuda::FormatQ8_0>(own, rows, kBlocks);
      expected.insert(expected.end(), panels.begin(), panels.end());
    }
    EXPECT_EQ(back(weight, expected.size()), expected);
    ASSERT_TRUE(gpu().reserve({}).has_value());
    EXPECT_EQ(kernels::Buffer::bytes_in_all() - before, gpu().load_bytes(matrix))
        << "what it went through is given back";
  }
}

// A panel larger than the staging buffer, after a matrix that used the smaller buffer.
TEST_F(GpuPanels, TheStagingBufferGrowsForLongRows) {
  constexpr size_t kRows = 18, kBlocks = 66'000;
  const std::vector<uint8_t> bytes = random_bytes(kRows * kBlocks * kernels::cuda::FormatQ4_0::kBytes);
  kernels::HostMatrix matrix{
      .type = TensorType::kQ4_0, .rows = 2, .cols = 32, .data = reinterpret_cast<const std::byte*>(bytes.data())};
  const kernels::Weight small = gpu().load(matrix).value();
  matrix.rows = kRows;
  matrix.cols = int64_t{kBlocks} * 32;
  const kernels::Weight large = gpu().load(matrix).value();
  const auto check = [&](const kernels::Weight& weight, size_t rows, size_t blocks) {
    const auto expected = kernels::cuda::panels_of<kernels::cuda::FormatQ4_0>(bytes, rows, blocks);
    EXPECT_EQ(back(weight, expected.size()), expected) << rows << " rows";
  };
  check(small, 2, 1);
  check(large, kRows, kBlocks);
  ASSERT_TRUE(gpu().reserve({}).has_value());
}

}  // namespace
}  // namespace cairn::gpu
