/// For the tests on a GPU: both backends, arrays in their memory, comparisons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/test_support.h"
#include "kernels/cuda/cuda_backend.h"

namespace cairn::gpu {

using kernels::cpu::Random;

/// Whether the GPU is emulated (tests/emulation/cuda). It is slow, so tests use sizes that are just large enough for
/// all cases of the kernels.
#if defined(CAIRN_EMULATED_GPU)
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

/// Rows of the largest call.
inline constexpr int32_t kRowsMax = kEmulated ? 33 : 200;
/// Row counts of calls: alone, few, as many as GEMV kernels take and one more, more than a tile, and most of a large
/// step.
inline constexpr int32_t kAllRowCounts[] = {1, 3, 8, 9, 33, 200};
inline constexpr std::span kRowCounts = std::span(kAllRowCounts).first(kEmulated ? 5 : 6);

/// Workspace sizes that are enough for all tests of operations.
inline kernels::WorkspaceSizes sizes_of_tests() {
  kernels::WorkspaceSizes sizes;
  sizes.inputs = {{1'024, 8'192}};
  sizes.expert_choices = 1'024;
  sizes.experts = 64;
  sizes.routed_experts = 256;
  sizes.route_groups = 8;
  sizes.attention_rows = kEmulated ? 128 : 256;
  sizes.attention_heads = 32;
  sizes.head_dim = 256;
  sizes.attention_tokens = 8'192;
  sizes.mla = {.rows = sizes.attention_rows,
               .heads = 70,
               .context_tokens = 8'448,
               .row_dim = 576,
               .choose_heads = 64,
               .choose_dim = 128};
  return sizes;
}

inline Result<std::unique_ptr<kernels::Backend>> reserved(Result<std::unique_ptr<kernels::Backend>> made) {
  if (!made) return made;
  CAIRN_TRY_VOID((*made)->reserve(sizes_of_tests()));
  return made;
}

/// Created once and never destroyed: the driver may be unloaded before static objects are destroyed.
inline Result<std::unique_ptr<kernels::Backend>>& gpu_or_why_not() {
  static auto* made = new Result<std::unique_ptr<kernels::Backend>>(reserved(kernels::make_cuda_backend({})));
  return *made;
}

/// Skips its tests if there is no GPU, and fails if there is one that cannot be used.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto& made = gpu_or_why_not();
    if (!made && made.error().code == Code::kNotFound)
      GTEST_SKIP() << "skipped: no CUDA device: " << made.error().text();
    ASSERT_TRUE(made.has_value()) << made.error().text();
  }
  void TearDown() override {
    if (IsSkipped() || !gpu_or_why_not()) return;
    const auto finished = gpu().finish();
    EXPECT_TRUE(finished.has_value()) << finished.error().text();
  }
  static kernels::Backend& gpu() { return **gpu_or_why_not(); }
  /// Uses float32 activations for BF16 weights, because the GPU does.
  static kernels::Backend& cpu() {
    static const auto made = [] {
      const auto exact = std::ranges::find_if(
          kernels::cpu::usable_isas(), [](const kernels::cpu::Isa& isa) { return isa.matmul->round_row == nullptr; });
      return reserved(kernels::make_cpu_backend({.threads = 2, .isa = std::string(exact->name)})).value();
    }();
    return *made;
  }
};

/// Arrays in a backend's memory, which are freed with this object.
class Arrays {
 public:
  explicit Arrays(kernels::Backend& backend) : backend_(backend) {}

  template <class T>
  T* put(std::span<const T> values) {
    T* at = make<T>(std::ssize(values));
    backend_.write(values.data(), static_cast<int64_t>(values.size_bytes()), at);
    return at;
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    return put(std::span<const T>(values));
  }
  /// An array of zeros.
  template <class T = float>
  T* make(int64_t n) {
    buffers_.push_back(backend_.allocate(n * static_cast<int64_t>(sizeof(T))).value());
    return static_cast<T*>(buffers_.back().data());
  }
  template <class T>
  std::vector<T> get(const T* at, int64_t n) {
    std::vector<T> values(static_cast<size_t>(n));
    backend_.read(at, n * static_cast<int64_t>(sizeof(T)), values.data());
    return values;
  }

 private:
  kernels::Backend& backend_;
  std::vector<kernels::Buffer> buffers_;
};

inline double largest_magnitude(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}
/// The largest difference relative to the largest magnitude of `b`; NaN if either has one.
inline double difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(double{a[i]} - b[i]);
    if (std::isnan(apart)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, apart);
  }
  return largest == 0 ? 0 : largest / std::max(largest_magnitude(b), 1e-30);
}

/// The result of a backend for rows [first, first + rows) of an operation's input, in one call for them alone.
using RowOperation = std::function<std::vector<float>(kernels::Backend&, int64_t first, int64_t rows)>;

/// Compares the GPU with the CPU for every row count, and single rows with the same among others, bit by bit.
inline void check_rows(kernels::Backend& gpu, kernels::Backend& cpu, double bound, const RowOperation& operation) {
  for (const int32_t rows : kRowCounts) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    const std::vector<float> together = operation(gpu, 0, rows);
    const std::vector<float> expected = operation(cpu, 0, rows);
    ASSERT_EQ(together.size(), expected.size());
    EXPECT_LE(difference(together, expected), bound);
    const auto width = static_cast<int64_t>(together.size()) / rows;
    for (const int64_t row : {int64_t{0}, int64_t{rows} / 2, int64_t{rows} - 1}) {
      const std::vector<float> alone = operation(gpu, row, 1);
      const auto among = std::span(together).subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
      EXPECT_TRUE(kernels::cpu::same_bits(alone, among)) << "row " << row << " alone";
    }
  }
}

/// Rows [first, first + rows) of a matrix.
template <class T>
std::span<const T> rows_of(const std::vector<T>& values, int64_t cols, int64_t first, int64_t rows) {
  return std::span<const T>(values).subspan(static_cast<size_t>(first * cols), static_cast<size_t>(rows * cols));
}

}  // namespace cairn::gpu
