/// The int8 products (matmul_int8_body.h) of few tokens, which are bound by memory: panels are read once and in order,
/// with little work between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/matmul/int8_block.h"
#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/matmul_panel.h"
#include "kernels/cpu/matmul/scaled_few.h"

namespace cairn::kernels::cpu {
namespace {

/// Rows that two tiles of few tokens read in turn, the second from the L2 cache.
inline constexpr int64_t kRowsOfFew = 64;

template <class V>
struct FewTokens {
  using F = typename V::F;

  /// Whether this many tokens count as few, so that multiply() is the fastest way.
  template <Int8Type kType>
  static constexpr bool are_few(int32_t tokens) {
    if (kScalesFew<V, kType>) return tokens <= kScaledFewMax;
    return tokens <= (V::kTokens <= V::kTokensInRegisters ? V::kManyAbove : V::kTokensInRegisters);
  }
  /// How many of the `left` rows to pass to one call of multiply(): if it reads them again for more tokens, as many as
  /// the L2 cache holds.
  template <Int8Type kType>
  static constexpr int64_t rows_at_once(int32_t tokens, int64_t left) {
    return kScalesFew<V, kType> || tokens <= V::kTokensInRegisters ? left : kRowsOfFew;
  }

  /// outputs[t][row + i] = row i of the panels times inputs[t], for i in [0, rows) and t in [0, tokens).
  template <Int8Type kType>
  static void multiply(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs, int64_t row) {
    if constexpr (V::kPairsForOne) {
      if (tokens == 1) {
        const int64_t paired = rows / (2 * kPanelLanes) * (2 * kPanelLanes);
        panels_of_few<kType, 1, true>(codebook, panels, cols, paired, inputs, 1, outputs, row);
        panels += paired / kPanelLanes * int8_traits(kType).format.panel_bytes(cols);
        return panels_of_few<kType, 1>(codebook, panels, cols, rows - paired, inputs, 1, outputs, row + paired);
      }
    }
    if constexpr (kScalesFew<V, kType>) {
      if (tokens > kScaledFewAbove) {
        return scaled_panels<kType>(codebook, panels, cols, rows, inputs, tokens, outputs, row);
      }
    }
    constexpr int32_t kAtOnce = V::kTokensInRegisters;
    for (int32_t t = 0; t < tokens; t += kAtOnce) {
      const int32_t n = tokens - t < kAtOnce ? tokens - t : kAtOnce;
      panels_for<kType, kAtOnce>(codebook, panels, cols, rows, inputs + t, n, outputs + t, row);
    }
  }

  /// The blocks of a panel from `section` on: all of it is read in order, and scales that are used once or twice are
  /// not kept.
  template <Int8Type kType>
  static auto blocks(const Codebook& codebook, const std::byte* section, int32_t tokens) {
    if constexpr (PanelScales<V, kType>::kUnpacked) {
      using Scales = ScalesInOrder<V, kType>;
      return PanelBlocks<V, kType, Scales, true>(section, Scales(codebook.multiplier), codebook, read_ahead(tokens));
    } else {
      using Scales = std::conditional_t<V::kLanes == kPanelLanes, HeldScales<V, kType>, HeadScales<V, kType>>;
      return PanelBlocks<V, kType, Scales, true>(section, Scales{}, codebook, read_ahead(tokens));
    }
  }

 private:
  static constexpr int kVectors = kPanelLanes / V::kLanes;

  /// multiply() for more than kScaledFewAbove tokens, with ScaledFew.
  template <Int8Type kType>
  [[gnu::noinline]] static void scaled_panels(const Codebook& codebook, const std::byte* panels, int64_t cols,
                                              int64_t rows, const std::byte* const* inputs, int32_t tokens,
                                              float* const* outputs, int64_t row) {
    auto source = blocks<kType>(codebook, panels, tokens);
    using Products = ScaledFew<V, decltype(source)::kShape>;
    Products products;
    alignas(64) typename Products::Sums sums[kScaledFewMax];
    const int64_t row_blocks = cols / 32;
    for (int64_t r = 0; r < rows; r += kPanelLanes) {
      for (int32_t t = 0; t < Products::filled_up(tokens); ++t) V::store(sums[t], V::set(0));
      for (int64_t begin = 0; begin < row_blocks; begin += kPreparedBlocks) {
        const int64_t count = row_blocks - begin < kPreparedBlocks ? row_blocks - begin : kPreparedBlocks;
        if (r == 0 || row_blocks > kPreparedBlocks) {
          products.take(inputs, tokens, places(inputs[0], cols, begin), count);
        }
        products.add(source, sums);
      }
      for (int32_t t = 0; t < tokens; ++t) put_some(V::load_floats(sums[t]), rows - r, outputs[t] + row + r);
    }
  }

  /// Calls panels_of_few with the smallest power of two T that has room for the tokens.
  template <Int8Type kType, int T>
  static void panels_for(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                         const std::byte* const* inputs, int32_t tokens, float* const* outputs, int64_t row) {
    if constexpr (T > 1) {
      if (tokens <= T / 2) {
        return panels_for<kType, T / 2>(codebook, panels, cols, rows, inputs, tokens, outputs, row);
      }
    }
    panels_of_few<kType, T>(codebook, panels, cols, rows, inputs, tokens, outputs, row);
  }

  /// multiply() of at most T tokens, whose sums are in registers. Data shared by all panels is prepared once, and there
  /// is little other work between panels: memory idles while nothing is loaded. With kPairs there is an even number of
  /// whole panels, and the first half of them is multiplied beside the second half.
  template <Int8Type kType, int T, bool kPairs = false>
  [[gnu::noinline]] static void panels_of_few(const Codebook& codebook, const std::byte* panels, int64_t cols,
                                              int64_t rows, const std::byte* const* inputs, int32_t tokens,
                                              float* const* outputs, int64_t row) {
    const int64_t from_first = rows / 2;
    const int64_t to_second = from_first / kPanelLanes * int8_traits(kType).format.panel_bytes(cols);
    auto source = [&] {
      const auto first = blocks<kType>(codebook, panels, tokens);
      if constexpr (kPairs)
        return PanelPair(first, blocks<kType>(codebook, panels + to_second, tokens));
      else
        return first;
    }();
    using Source = decltype(source);
    const std::byte* from[T];
    for (int t = 0; t < T; ++t) from[t] = inputs[t < tokens ? t : tokens - 1];
    Prepared<V, Source, T> prepared;
    const int64_t row_blocks = cols / 32;
    for (int64_t r = 0; r < (kPairs ? from_first : rows); r += kPanelLanes) {
      SumsInRegisters<V, T, Source::kVectors> sums;
      for (int t = 0; t < T; ++t) {
        for (int v = 0; v < Source::kVectors; ++v) sums.set(t, v, V::set(0));
      }
      for (int64_t begin = 0; begin < row_blocks; begin += kPreparedBlocks) {
        const int64_t count = row_blocks - begin < kPreparedBlocks ? row_blocks - begin : kPreparedBlocks;
        Places at = places(from[0], cols, begin);
        if (r == 0 || row_blocks > kPreparedBlocks) prepared.fill(from, at, count);
        prepared.give(at);
        BlockProducts<V>::template add_blocks<T>(source, count, from, at, sums);
      }
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        if (t == tokens) break;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          put_some(sums.get(t, v), rows - r - v * V::kLanes, outputs[t] + row + r + v * V::kLanes);
          if constexpr (kPairs) {
            put_some(sums.get(t, v + kVectors), V::kLanes, outputs[t] + row + from_first + r + v * V::kLanes);
          }
        }
      }
    }
  }

  /// Stores the first `count` of a vector's sums; none if `count` is not above 0.
  static void put_some(F sums, int64_t count, float* to) {
    if (count >= V::kLanes) {
      std::memcpy(to, &sums, sizeof(sums));
    } else if (count > 0) {
      std::memcpy(to, &sums, static_cast<size_t>(count) * sizeof(float));
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
