/// Codebooks of the IQ formats: an index in a block selects a row of 8 or 4 levels. They are data of the ggml formats,
/// see NOTICE.
#pragma once

#include <cstdint>

namespace cairn::quant {

template <int kRows, int kWidth>
struct Grid {
  int8_t rows[kRows][kWidth];
};

extern const Grid<2048, 8> kIq1Grid;  ///< IQ1_S and IQ1_M: -1, 0, 1
extern const Grid<256, 8> kIq2XxsGrid;
extern const Grid<512, 8> kIq2XsGrid;
extern const Grid<1024, 8> kIq2SGrid;
extern const Grid<256, 4> kIq3XxsGrid;
extern const Grid<512, 4> kIq3SGrid;

}  // namespace cairn::quant
