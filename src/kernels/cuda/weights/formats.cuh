/// Lists every quantised type that the GPU multiplies, and dispatches from a type at run time to its format.
#pragma once

#include "kernels/cuda/weights/iq_blocks.cuh"
#include "kernels/cuda/weights/k_blocks.cuh"
#include "kernels/cuda/weights/legacy_blocks.cuh"
#include "kernels/cuda/weights/ternary_blocks.cuh"

namespace cairn::kernels::cuda {

template <class... F>
struct FormatList {};

/// The formats are in three lists, so that kernels are compiled in three files, which takes a third of the time.
using SmallFormats =
    FormatList<FormatQ4_0, FormatQ4_1, FormatQ5_0, FormatQ5_1, FormatQ8_0, FormatIQ4_NL, FormatMXFP4, FormatNVFP4>;
using SuperFormats = FormatList<FormatQ2_K, FormatQ3_K, FormatQ4_K, FormatQ5_K, FormatQ6_K, FormatIQ4_XS>;
using LowBitFormats = FormatList<FormatIQ1_S, FormatIQ1_M, FormatIQ2_XXS, FormatIQ2_XS, FormatIQ2_S, FormatIQ3_XXS,
                                 FormatIQ3_S, FormatTQ1_0, FormatTQ2_0, FormatQ1_0, FormatQ2_0>;

template <class A, class B, class C>
struct Joined;
template <class... A, class... B, class... C>
struct Joined<FormatList<A...>, FormatList<B...>, FormatList<C...>> {
  using List = FormatList<A..., B..., C...>;
};
using AllFormats = Joined<SmallFormats, SuperFormats, LowBitFormats>::List;

template <class... F>
constexpr bool sections_are_blocks(FormatList<F...>) {
  return (sections_are_block<F>() && ...);
}
static_assert(sections_are_blocks(AllFormats()));

template <class... F>
bool has_format(FormatList<F...>, TensorType type) {
  return ((type == F::kType) || ...);
}

/// Calls visit.operator()<F>() with the format of the type. Returns whether the list has it.
template <class... F, class Visit>
bool visit_format(FormatList<F...>, TensorType type, Visit visit) {
  const auto consider = [&]<class Candidate>() {
    if (type != Candidate::kType) return false;
    visit.template operator()<Candidate>();
    return true;
  };
  return (consider.template operator()<F>() || ...);
}

}  // namespace cairn::kernels::cuda
