#include "kernels/cpu/isa/isa.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "base/system/machine.h"

namespace cairn::kernels::cpu {
namespace {

constexpr Isa kGeneric{"generic", &kGenericMatmul, &kGenericRows, &kGenericAttention, &kGenericRecurrent};
#if defined(__x86_64__)
constexpr std::array kIsas{
    Isa{"avx512bf16", &kAvx512Bf16Matmul, &kAvx512Rows, &kAvx512Attention, &kAvx512Recurrent},
    Isa{"avx512", &kAvx512Matmul, &kAvx512Rows, &kAvx512Attention, &kAvx512Recurrent},
    Isa{"avxvnni", &kAvxVnniMatmul, &kAvx2Rows, &kAvx2Attention, &kAvx2Recurrent},
    Isa{"avx2", &kAvx2Matmul, &kAvx2Rows, &kAvx2Attention, &kAvx2Recurrent},
    kGeneric,
};
#elif defined(__aarch64__)
constexpr std::array kIsas{Isa{"neon", &kNeonMatmul, &kNeonRows, &kNeonAttention, &kNeonRecurrent}, kGeneric};
#else
constexpr std::array kIsas{kGeneric};
#endif

bool usable(std::string_view name) {
  if (name == "avx512bf16") return cpu_features().avx512_bf16;
  if (name == "avx512") return cpu_features().avx512_vnni;
  if (name == "avxvnni") return cpu_features().avx_vnni;
  if (name == "avx2") return cpu_features().avx2_fma_f16c;
  if (name == "neon") return cpu_features().neon_dotprod;
  return true;
}

}  // namespace

std::span<const Isa> usable_isas() {
  static const std::vector<Isa> found = [] {
    std::vector<Isa> isas;
    std::ranges::copy_if(kIsas, std::back_inserter(isas), usable, &Isa::name);
    return isas;
  }();
  return found;
}

Result<Isa> choose_isa(std::string_view name) {
  const auto isas = usable_isas();
  if (name.empty()) return isas.front();
  const auto found = std::ranges::find(isas, name, &Isa::name);
  if (found != isas.end()) return *found;
  std::string have;
  for (const Isa& isa : isas) have += fmt::format("{}{}", have.empty() ? "" : ", ", isa.name);
  const bool known = std::ranges::find(kIsas, name, &Isa::name) != kIsas.end();
  return fail(Code::kInvalidArgument, "{} \"{}\"; this machine can use: {}",
              known ? "this processor lacks the instruction set" : "no such instruction set:", name, have);
}

}  // namespace cairn::kernels::cpu
