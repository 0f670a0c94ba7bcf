/// Tiles of attention: a few queries that are multiplied with the same keys or values.
#pragma once

#include <cstdint>

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct AttentionTiles {
  // Accumulators of a tile. Two multiply-adds per cycle with a latency of four need at least eight; with twelve, short
  // stalls do not matter. With two vectors of keys or values and a broadcast number they fill 16 registers.
  static constexpr int kSums = V::kRegisters == 16 ? 12 : 24;
  static constexpr int kTileVectors = 2;
  static constexpr int kTileQueries = kSums / kTileVectors;

  /// Calls tile<kQueries>(first query) until all n queries are covered.
  template <class Tile>
  static void in_tiles(int32_t n, const Tile& tile) {
    int32_t i = 0;
    const auto advance = [&]<int kQueries>() {
      for (; i + kQueries <= n; i += kQueries) tile.template operator()<kQueries>(i);
    };
    advance.template operator()<kTileQueries>();
    advance.template operator()<4>();
    advance.template operator()<2>();
    advance.template operator()<1>();
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
