/// Reads pages whose numbers lie in pairs (kv_page.h), written once over an ISA's `Vector`: a row of a head is cut into
/// pieces, each with a scale for every token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"

namespace cairn::kernels::cpu {
namespace {

/// Functions shared by loops over pairs.
template <class V>
struct PairVectors {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int32_t kLanes = V::kLanes;
  static constexpr int kPageVectors = kAttentionPage / kLanes;
  static constexpr int32_t kPagePairs = kAttentionPage / 2;
  static constexpr int kLine = 64;  // bytes per prefetch

  static F to_float(I x) { return __builtin_convertvector(x, F); }
  static I broadcast(int32_t x) { return x - I{}; }

  // Unrolled here, before the compiler decides what stays in registers.
  template <int kQueries, int kVectors, class Function>
  [[gnu::always_inline]] static void for_each_sum(const Function& function) {
#pragma GCC unroll 12
    for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) function(q, v);
    }
  }

  [[gnu::always_inline]] static void ask_for(const std::byte* next, int bytes) {
    for (int at = 0; at < bytes; at += kLine) __builtin_prefetch(next + at, 0, 2);
  }
};

/// Pages of KvType::kI16, where a row is one piece.
template <class V>
struct Int16Pages {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int64_t kPieceBytes = 0;  ///< distance of pieces; 0: there is only one
  static constexpr int kPairBytes = 4;
  static constexpr int32_t kDimsTogether = 64;  ///< dimensions of values summed at a time; a multiple of kLanes
  static constexpr float kWeightSum = kInt16WeightSum;

  static constexpr int32_t pieces(int32_t) { return 1; }
  static constexpr int32_t piece_dims(int32_t dim) { return dim; }
  static I pairs(const std::byte* from) { return (I)V::keep(V::load(reinterpret_cast<const float*>(from))); }
  static I some_pairs(const std::byte* from, int32_t n) {
    return n < V::kLanes ? (I)V::load_some(reinterpret_cast<const float*>(from), n) : pairs(from);
  }
  /// The scales of kLanes tokens from `token` on.
  static F key_scales(const std::byte* piece, int32_t key_dim, int32_t token) {
    return V::load(reinterpret_cast<const float*>(piece + key_scales_at(key_dim)) + token);
  }
  static F value_scales(const std::byte* piece, int32_t value_dim, int32_t token) {
    return V::load(reinterpret_cast<const float*>(piece + value_scales_at(value_dim)) + token);
  }
};

/// Pages of KvType::kQ8_0Pairs.
template <class V>
struct Q8Pages {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int64_t kPieceBytes = kQ8ScalesAt + 2 * kAttentionPage;
  static constexpr int kPairBytes = 2;
  static constexpr int32_t kDimsTogether = 32;
  static constexpr float kWeightSum = kQ8WeightSum;

  static constexpr int32_t pieces(int32_t dim) { return (dim + kQ8Dims - 1) / kQ8Dims; }
  static constexpr int32_t piece_dims(int32_t) { return kQ8Dims; }
  static I pairs(const std::byte* from) { return (I)V::keep((F)V::widened(reinterpret_cast<const int8_t*>(from))); }
  /// A piece always has all its pairs, so none are masked.
  static I some_pairs(const std::byte* from, int32_t) { return pairs(from); }
  static F key_scales(const std::byte* piece, int32_t, int32_t token) {
    return V::load(reinterpret_cast<const uint16_t*>(piece + kQ8ScalesAt) + token);
  }
  static F value_scales(const std::byte* piece, int32_t, int32_t token) { return key_scales(piece, 0, token); }
};

}  // namespace
}  // namespace cairn::kernels::cpu
