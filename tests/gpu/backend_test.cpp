// Properties of a backend with memory of its own: copies, arguments in host memory, limits, errors.
#include "gpu/lab.h"
#include "kernels/cuda/cuda_backend.h"
#include "quant/codec.h"

namespace cairn::gpu {
namespace {

class GpuBackend : public GpuTest {};

TEST_F(GpuBackend, DescribesItsDevice) {
  EXPECT_TRUE(gpu().description().starts_with("cuda ")) << gpu().description();
  EXPECT_GT(gpu().available_bytes(), 0);
  EXPECT_TRUE(kernels::built_with_cuda());
  const auto none = kernels::make_cuda_backend({.device = 99});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_NE(none.error().message.find("99"), std::string::npos) << none.error().message;
}

TEST_F(GpuBackend, MemoryIsZeroedAndCopied) {
  constexpr int64_t kFloats = 100'003;
  Random random(1);
  const std::vector<float> values = random.normals(kFloats);
  Arrays arrays(gpu());
  float* empty = arrays.make(kFloats);
  EXPECT_EQ(arrays.get(empty, kFloats), std::vector<float>(kFloats));
  const float* there = arrays.put(values);
  gpu().copy(there + 1, (kFloats - 1) * 4, empty);
  std::vector<float> moved(values.begin() + 1, values.end());
  moved.push_back(0);
  EXPECT_EQ(arrays.get(empty, kFloats), moved);
}

TEST_F(GpuBackend, TooMuchMemoryIsRefusedNamingTheFreeBytes) {
  const auto buffer = gpu().allocate(int64_t{1} << 45);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, Code::kOutOfMemory);
  EXPECT_NE(buffer.error().message.find("MiB are free"), std::string::npos) << buffer.error().message;
  EXPECT_TRUE(gpu().finish().has_value()) << "and nothing has broken";
}

// Larger than the staging buffers, and not a multiple of them.
TEST_F(GpuBackend, LargeWeightsAreUploadedCompletely) {
  constexpr int64_t kRows = 12'345, kCols = 1'027;
  Random random(2);
  const std::vector<float> values = random.normals(kRows * kCols);
  const kernels::HostMatrix matrix{.type = TensorType::kF32,
                                   .rows = kRows,
                                   .cols = kCols,
                                   .data = reinterpret_cast<const std::byte*>(values.data())};
  ASSERT_TRUE(gpu().reserve({}).has_value()) << "what earlier tests' weights went through";
  const int64_t before = kernels::Buffer::bytes_in_all();
  const kernels::Weight weight = gpu().load(matrix).value();
  EXPECT_EQ(static_cast<int64_t>(weight.memory->bytes()), gpu().load_bytes(matrix));
  std::vector<float> back(values.size());
  gpu().read(weight.data, std::ssize(back) * 4, back.data());
  EXPECT_TRUE(kernels::cpu::same_bits(back, values));
  ASSERT_TRUE(gpu().reserve({}).has_value());
  EXPECT_EQ(kernels::Buffer::bytes_in_all() - before, gpu().load_bytes(matrix)) << "what it went through is given back";
}

TEST_F(GpuBackend, UnknownTypesAreRefused) {
  const std::vector<std::byte> bytes(64);
  const auto weight = gpu().load({.type = TensorType::kI32, .rows = 1, .cols = 4, .data = bytes.data()});
  ASSERT_FALSE(weight.has_value());
  EXPECT_EQ(weight.error().code, Code::kUnsupported);
}

TEST_F(GpuBackend, ScalesOfAMatrixFollowItsBlocks) {
  const std::vector<float> values(15, 1.0f), x(3, 2.0f);
  const kernels::HostMatrix matrix{.type = TensorType::kF32,
                                   .rows = 5,
                                   .cols = 3,
                                   .data = reinterpret_cast<const std::byte*>(values.data()),
                                   .scales = {-0.5f}};
  ASSERT_TRUE(gpu().reserve({}).has_value()) << "what earlier tests' weights went through";
  const int64_t before = kernels::Buffer::bytes_in_all();
  const kernels::Weight weight = gpu().load(matrix).value();
  ASSERT_TRUE(gpu().reserve({}).has_value());
  EXPECT_EQ(kernels::Buffer::bytes_in_all() - before, gpu().load_bytes(matrix));
  Arrays arrays(gpu());
  float* out = arrays.make(5);
  const kernels::MatmulTarget projection{&weight, arrays.put(std::vector<float>{0, 1, 2, 3, 4}), out};
  gpu().matmul({&projection, 1}, arrays.put(x), 1);
  EXPECT_EQ(arrays.get(out, 5), (std::vector<float>{-3, -2, -1, 0, 1})) << "the bias is not scaled";
}

// Arguments may be changed as soon as the call returns, however many transfers are in flight.
TEST_F(GpuBackend, ArgumentsAreCopiedBeforeACallReturns) {
  constexpr int32_t kRows = 1'000, kCalls = kEmulated ? 300 : 2'000;  // more than the staging ring holds
  std::vector<float> x;
  for (int32_t i = 0; i < kRows; ++i) x.push_back(static_cast<float>(i));
  Arrays arrays(gpu());
  const float* from = arrays.put(x);
  float* out = arrays.make(int64_t{kCalls} * kRows);
  std::vector<int32_t> numbers(kRows);
  for (int32_t call = 0; call < kCalls; ++call) {
    for (int32_t i = 0; i < kRows; ++i) numbers[i] = (call * 7 + i) % kRows;
    gpu().gather_rows(from, numbers, 1, out + int64_t{call} * kRows);
    std::ranges::fill(numbers, 0);
  }
  const std::vector<float> all = arrays.get(out, int64_t{kCalls} * kRows);
  for (int32_t call = 0; call < kCalls; ++call) {
    for (int32_t i = 0; i < kRows; ++i) ASSERT_EQ(all[call * kRows + i], (call * 7 + i) % kRows) << call;
  }
}

TEST_F(GpuBackend, ReservesTheBytesThatItPlans) {
  auto fresh = kernels::make_cuda_backend({}).value();
  const kernels::WorkspaceSizes sizes = sizes_of_tests();
  const int64_t before = kernels::Buffer::bytes_in_all();
  ASSERT_TRUE(fresh->reserve(sizes).has_value());
  const int64_t taken = kernels::Buffer::bytes_in_all() - before;
  // Places and pages are also kept on the host's heap.
  EXPECT_LE(taken, fresh->workspace_bytes(sizes));
  EXPECT_GE(taken, fresh->workspace_bytes(sizes) * 3 / 4);
  ASSERT_TRUE(fresh->reserve(sizes).has_value());
  EXPECT_EQ(kernels::Buffer::bytes_in_all() - before, taken) << "once";
}

TEST_F(GpuBackend, HeadsThatDoNotFitAreRefused) {
  kernels::WorkspaceSizes sizes = sizes_of_tests();
  sizes.head_dim = 1'024;
  const auto reserved = gpu().reserve(sizes);
  ASSERT_FALSE(reserved.has_value());
  EXPECT_EQ(reserved.error().code, Code::kUnsupported);
}

TEST_F(GpuBackend, CallsWithoutRowsDoNothing) {
  gpu().rms_norm(nullptr, nullptr, 1, 0, 64, nullptr);
  gpu().embed({}, {}, 1, nullptr);
  gpu().gather_rows(nullptr, {}, 4, nullptr);
  gpu().matmul({}, nullptr, 0);
  gpu().store_kv({}, {}, nullptr, nullptr);
  gpu().attention({}, {}, {}, nullptr, nullptr);
  EXPECT_TRUE(gpu().finish().has_value());
}

}  // namespace
}  // namespace cairn::gpu
