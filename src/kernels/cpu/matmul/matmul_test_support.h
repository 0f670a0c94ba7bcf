/// For the tests of matrix products: the instruction sets under test, emulated ones included, and aligned rows.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/system/machine.h"
#include "kernels/cpu/matmul/matmul.h"

namespace cairn::kernels::cpu {
#if defined(CAIRN_EMULATED_ISAS)
extern const MatmulKernels kEmulatedAvx512Matmul;
extern const MatmulKernels kEmulatedAvx512Bf16Matmul;
MatmulFunction emulated_avxvnni_product_of_32(TensorType type);
MatmulFunction emulated_avxvnni_product_of_256(TensorType type);
#endif

namespace matmul_test {

using Random = std::mt19937_64;

#if defined(CAIRN_EMULATED_ISAS)
// Emulated AVX-VNNI: only its int8 products differ from AVX2.
inline const MatmulKernels& emulated_avxvnni() {
  static const MatmulKernels kernels = {
      "avxvnni_emulated", kAvx2Matmul.quantize_row, kAvx2Matmul.matmul_rows,
      [](TensorType type, const std::byte* panels, int64_t cols, int64_t row_begin, int64_t row_end,
         const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
        MatmulFunction product = emulated_avxvnni_product_of_32(type);
        if (product == nullptr) product = emulated_avxvnni_product_of_256(type);
        product(type, panels, cols, row_begin, row_end, inputs, tokens, outputs);
      },
      nullptr};
  return kernels;
}
#endif

struct Isa {
  std::string name;
  const MatmulKernels* kernels;
};

inline std::vector<Isa> isas() {
  std::vector<Isa> list = {{"generic", &kGenericMatmul}};
#if defined(__x86_64__)
  if (cpu_features().avx2_fma_f16c) {
    list.push_back({"avx2", &kAvx2Matmul});
#if defined(CAIRN_EMULATED_ISAS)
    list.push_back({"avx512_emulated", &kEmulatedAvx512Matmul});
    list.push_back({"avx512bf16_emulated", &kEmulatedAvx512Bf16Matmul});
    list.push_back({"avxvnni_emulated", &emulated_avxvnni()});
#endif
  }
  if (cpu_features().avx_vnni) list.push_back({"avxvnni", &kAvxVnniMatmul});
  if (cpu_features().avx512_vnni) list.push_back({"avx512", &kAvx512Matmul});
  if (cpu_features().avx512_bf16) list.push_back({"avx512bf16", &kAvx512Bf16Matmul});
#elif defined(__aarch64__)
  if (cpu_features().neon_dotprod) list.push_back({"neon", &kNeonMatmul});
#endif
  return list;
}

inline int64_t random_between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// The seed, printed with a failure, so that a failing run can be repeated: CAIRN_TEST_SEED=n kernels_test.
inline uint64_t test_seed() {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

// 64-byte aligned rows of equal size.
class Rows {
 public:
  Rows(int64_t rows, size_t row_bytes)
      : row_bytes_(row_bytes),
        bytes_(static_cast<size_t>(rows) * row_bytes + 64),
        pointers_(static_cast<size_t>(rows)) {
    std::byte* begin = bytes_.data() + (64 - reinterpret_cast<uintptr_t>(bytes_.data()) % 64) % 64;
    for (size_t r = 0; r < pointers_.size(); ++r) pointers_[r] = begin + r * row_bytes_;
  }
  std::byte* row(size_t r) { return const_cast<std::byte*>(pointers_[r]); }
  const std::byte* const* pointers() const { return pointers_.data(); }

 private:
  size_t row_bytes_;
  std::vector<std::byte> bytes_;
  std::vector<const std::byte*> pointers_;
};

class MatmulTest : public ::testing::TestWithParam<Isa> {
 protected:
  MatmulTest() { RecordProperty("seed", std::to_string(seed_)); }
  uint64_t seed_ = test_seed();
  Random random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "CAIRN_TEST_SEED=" + std::to_string(seed_)};
};

inline std::string isa_name(const ::testing::TestParamInfo<Isa>& test) { return test.param.name; }

}  // namespace matmul_test
}  // namespace cairn::kernels::cpu
