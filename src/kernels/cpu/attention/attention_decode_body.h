/// Decodes a page's keys and values to float32, written once over an ISA's `Vector`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"

namespace cairn::kernels::cpu {
namespace {

/// Loads one vector of 16-bit floats: V::load for binary16, or V::load_uppers for bfloat16.
template <class V>
using WideLoad = typename V::F (*)(const uint16_t*);

template <class V>
struct PageDecoder {
  using F = typename V::F;
  static constexpr int32_t kLanes = V::kLanes;
  static constexpr int kPageVectors = kAttentionPage / kLanes;

  template <WideLoad<V> kLoad>
  static void decode_16_bits(const std::byte* page, int32_t dim, const std::byte* next, float* out) {
    const auto* from = reinterpret_cast<const uint16_t*>(page);
    for (int64_t i = 0; i < int64_t{dim} * kAttentionPage; i += kAttentionPage) {
      __builtin_prefetch(next + 2 * i);
      for (int v = 0; v < kPageVectors; ++v) V::store(out + i + v * kLanes, kLoad(from + i + v * kLanes));
    }
  }

  // The pieces of a page (kv_page.h) are kPiece bytes; the scales of the tokens follow the values.
  static constexpr int32_t kBlock = 32;
  static constexpr int64_t kScales = int64_t{kBlock} * kAttentionPage;
  static constexpr int64_t kPiece = kScales + 2 * kAttentionPage;

  static void decode_q8_0_keys(const std::byte* page, int32_t key_dim, const std::byte* next, float* out) {
    for (int32_t begin = 0; begin < key_dim; begin += kBlock, page += kPiece, next += kPiece) {
      F scales[kPageVectors];
      const auto* halves = reinterpret_cast<const uint16_t*>(page + kScales);
      for (int v = 0; v < kPageVectors; ++v) scales[v] = V::load(halves + v * kLanes);
      const int32_t n = key_dim - begin < kBlock ? key_dim - begin : kBlock;
      for (int32_t d = 0; d < n; ++d, out += kAttentionPage) {
        __builtin_prefetch(next + d * kAttentionPage);
        const auto* values = reinterpret_cast<const int8_t*>(page) + d * kAttentionPage;
        for (int v = 0; v < kPageVectors; ++v) V::store(out + v * kLanes, V::load(values + v * kLanes) * scales[v]);
      }
    }
  }

  static void decode_q8_0_values(const std::byte* page, int32_t value_dim, const std::byte* next, float* out) {
    for (int32_t begin = 0; begin < value_dim; begin += kBlock, page += kPiece, next += kPiece) {
      float scales[kAttentionPage];
      const auto* halves = reinterpret_cast<const uint16_t*>(page + kScales);
      for (int v = 0; v < kPageVectors; ++v) V::store(scales + v * kLanes, V::load(halves + v * kLanes));
      const int32_t n = value_dim - begin < kBlock ? value_dim - begin : kBlock;
      for (int32_t t = 0; t < kAttentionPage; ++t) {
        __builtin_prefetch(next + t * kBlock);
        const auto* values = reinterpret_cast<const int8_t*>(page) + t * kBlock;
        float* to = out + int64_t{t} * value_dim + begin;
        int32_t d = 0;
        for (; d + kLanes <= n; d += kLanes) V::store(to + d, V::load(values + d) * scales[t]);
        if (d < n) V::store_some(to + d, V::load(values + d) * scales[t], n - d);
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
