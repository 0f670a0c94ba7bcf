/// For the tests of attention on a GPU: a row's result must not depend on the rest of the call.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "gpu/lab.h"

namespace cairn::gpu {

/// Rows of a sequence in a call.
struct Part {
  size_t sequence = 0;
  int32_t begin = 0;
  int32_t rows = 0;
};

/// Lengths of three sequences; those of the first and third are multiples of 50.
constexpr std::array<int32_t, 3> three_lengths(int32_t first, int32_t third) { return {first, 77, third}; }

/// Checks that the rows of the first of three sequences have the same bits whether it is computed in halves, in pieces
/// of all lengths or with the others. make() creates a test fixture of sequences with those lengths; a row has `width`
/// numbers.
template <class Make>
void expect_same_rows(const Make& make, const std::array<int32_t, 3>& lengths, int64_t width) {
  const auto [tokens, between, others] = lengths;
  std::vector<float> alone, cut, among;
  auto first = make();
  for (int32_t at = 0; at < tokens; at += tokens / 2) {
    const Part part{0, at, tokens / 2};
    const std::vector<float> rows = first.attend({&part, 1});
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  auto second = make();
  for (int32_t at = 0, rows = 0; at < tokens; at += rows) {
    rows = std::min(1 + at % 23, tokens - at);
    const Part part{0, at, rows};
    const std::vector<float> out = second.attend({&part, 1});
    cut.insert(cut.end(), out.begin(), out.end());
  }
  EXPECT_TRUE(kernels::cpu::same_bits(alone, cut));
  constexpr int32_t kRows = 50;
  auto third = make();
  for (int32_t at = 0; at < tokens; at += kRows) {
    std::vector<Part> parts;
    if (at < others) parts.push_back({2, at, kRows});
    parts.push_back({0, at, kRows});
    if (at < between) parts.push_back({1, at, std::min(kRows, between - at)});
    const std::vector<float> out = third.attend(parts);
    const auto begin = out.begin() + (at < others ? kRows : 0) * width;
    among.insert(among.end(), begin, begin + kRows * width);
  }
  EXPECT_TRUE(kernels::cpu::same_bits(alone, among));
}

}  // namespace cairn::gpu
