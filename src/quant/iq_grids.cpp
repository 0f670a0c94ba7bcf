#include "quant/iq_grids.h"

#include "quant/iq_grid_codes.h"

namespace cairn::quant {
namespace {

template <int kWidth, int kRows, int kLevels>
constexpr Grid<kRows, kWidth> expand(const GridCodes<kRows>& codes, const int8_t (&levels)[kLevels]) {
  constexpr int kBits = 16 / kWidth;
  Grid<kRows, kWidth> grid{};
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kWidth; ++i) grid.rows[row][i] = levels[(codes.rows[row] >> (i * kBits)) & ((1 << kBits) - 1)];
  }
  return grid;
}

}  // namespace

constinit const Grid<2048, 8> kIq1Grid = expand<8>(kIq1Codes, kIq1Levels);
constinit const Grid<256, 8> kIq2XxsGrid = expand<8>(kIq2XxsCodes, kIq2Levels);
constinit const Grid<512, 8> kIq2XsGrid = expand<8>(kIq2XsCodes, kIq2Levels);
constinit const Grid<1024, 8> kIq2SGrid = expand<8>(kIq2SCodes, kIq2Levels);
constinit const Grid<256, 4> kIq3XxsGrid = expand<4>(kIq3XxsCodes, kIq3XxsLevels);
constinit const Grid<512, 4> kIq3SGrid = expand<4>(kIq3SCodes, kIq3SLevels);

}  // namespace cairn::quant
