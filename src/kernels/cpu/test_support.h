/// For the tests of the CPU kernels: every instruction set that can run here, random numbers, comparisons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "kernels/kv.h"
#include "quant/float_formats.h"

namespace cairn::kernels::cpu {

#if defined(CAIRN_EMULATED_ISAS)
extern const MatmulKernels kEmulatedAvx512Matmul;
extern const MatmulKernels kEmulatedAvx512Bf16Matmul;
extern const RowKernels kEmulatedAvx512Rows;
extern const AttentionKernels kEmulatedAvx512Attention;
extern const RecurrentKernels kEmulatedAvx512Recurrent;
#endif

/// The machine's own instruction sets, and emulated AVX-512 if the build has it (CAIRN_EMULATED_ISAS).
inline std::vector<Isa> isas_under_test() {
  const auto usable = usable_isas();
  std::vector<Isa> isas(usable.begin(), usable.end());
#if defined(CAIRN_EMULATED_ISAS)
  // The emulation itself is compiled for AVX2.
  if (choose_isa("avx2").has_value()) {
    isas.push_back({"avx512 emulated", &kEmulatedAvx512Matmul, &kEmulatedAvx512Rows, &kEmulatedAvx512Attention,
                    &kEmulatedAvx512Recurrent});
    isas.push_back({"avx512bf16 emulated", &kEmulatedAvx512Bf16Matmul, &kEmulatedAvx512Rows, &kEmulatedAvx512Attention,
                    &kEmulatedAvx512Recurrent});
  }
#endif
  return isas;
}

/// The last argument of INSTANTIATE_TEST_SUITE_P.
inline std::string isa_test_name(const ::testing::TestParamInfo<Isa>& instance) {
  std::string name(instance.param.name);
  std::erase(name, ' ');
  return name;
}

/// Seeded random numbers; put `trace()` in a SCOPED_TRACE.
class Random {
 public:
  explicit Random(uint32_t seed) : seed_(seed), engine_(seed) {}
  std::string trace() const { return "seed " + std::to_string(seed_); }
  int32_t integer(int32_t least, int32_t most) { return std::uniform_int_distribution<int32_t>(least, most)(engine_); }
  float normal(float sigma = 1) { return std::normal_distribution<float>(0, sigma)(engine_); }
  std::vector<float> normals(int64_t n, float sigma = 1) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = normal(sigma);
    return values;
  }

 private:
  uint32_t seed_;
  std::mt19937 engine_;
};

/// Rounds rows of `dim` elements to numbers that the type can hold, so that storing them changes nothing more.
inline void round_rows(KvType type, int32_t dim, std::span<float> x) {
  if (type == KvType::kF16) {
    for (float& value : x) value = quant::half_to_float(quant::float_to_half(value));
  }
  if (type == KvType::kBF16) {
    for (float& value : x) value = quant::bf16_to_float(quant::float_to_bf16(value));
  }
  if (type != KvType::kQ8_0 && type != KvType::kQ8_0Pairs) return;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(dim)) {
    for (int32_t begin = 0; begin < dim; begin += kKvBlock) {
      const auto block =
          x.subspan(row + static_cast<size_t>(begin), static_cast<size_t>(std::min(kKvBlock, dim - begin)));
      float largest = 0;
      for (const float value : block) largest = std::max(largest, std::abs(value));
      const float scale = quant::half_to_float(quant::float_to_half(largest / 127));
      for (float& value : block) value = std::nearbyint(value / scale) * scale;
    }
  }
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace cairn::kernels::cpu
