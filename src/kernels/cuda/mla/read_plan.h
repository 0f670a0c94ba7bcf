/// The rows that a query of MlaOperations reads, and their order. For host and device.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/split_plan.h"
#include "kernels/mla_operations.h"

namespace cairn::kernels::cuda {

/// Rows [first, first + count) of a view or, if rows are selected, of the query's list.
struct ReadRows {
  int32_t first = 0;
  int32_t count = 0;
};
/// The rows read by the query at `position`; chosen_max 0: none are selected.
CAIRN_HOST_DEVICE constexpr ReadRows read_rows(int32_t position, int32_t tokens_per_row, int32_t window,
                                               int32_t chosen_max) {
  const int32_t seen = (position + 1) / tokens_per_row;
  if (chosen_max > 0) return {0, seen < chosen_max ? seen : chosen_max};
  const int32_t count = window > 0 && window < seen ? window : seen;
  return {seen - count, count};
}

/// Rows that are processed together: of one source, so that all have one type.
inline constexpr int32_t kLatentTile = kPageTokens;

/// All rows that a query reads, numbered source by source. A source's numbers begin at a multiple of kLatentTile; the
/// rest of the tile before is empty.
struct ReadList {
  ReadRows of[kRowSourcesMax];
  int32_t begin[kRowSourcesMax] = {};
  int32_t end = 0;

  CAIRN_HOST_DEVICE constexpr void add(int32_t source, ReadRows rows) {
    of[source] = rows;
    begin[source] = (end + kLatentTile - 1) / kLatentTile * kLatentTile;
    end = begin[source] + rows.count;
  }
};

/// The rows of a tile.
struct ReadTile {
  int32_t source = 0;
  int32_t first = 0;  ///< as in ReadRows
  int32_t count = 0;
};
/// The tile that begins at number `number` of a list of `sources`.
CAIRN_HOST_DEVICE constexpr ReadTile tile_at(const ReadList& list, int32_t sources, int32_t number) {
  // Written without indices that are known only at run time, which would keep the list out of registers.
  int32_t source = 0, begin = 0;
  ReadRows rows = list.of[0];
  for (int32_t s = 1; s < static_cast<int32_t>(kRowSourcesMax); ++s) {
    if (s >= sources || number < list.begin[s]) continue;
    source = s;
    begin = list.begin[s];
    rows = list.of[s];
  }
  const int32_t left = rows.count - (number - begin);
  const int32_t count = left < 0 ? 0 : left;
  return {source, rows.first + number - begin, count < kLatentTile ? count : kLatentTile};
}

/// Number of rows that positions [begin, end) complete.
CAIRN_HOST_DEVICE constexpr int32_t completed_rows(int32_t begin, int32_t end, int32_t tokens_per_row) {
  return end / tokens_per_row - begin / tokens_per_row;
}

}  // namespace cairn::kernels::cuda
