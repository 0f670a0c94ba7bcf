#include "kernels/cpu/mla/mla_op.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/mla/mla_test_support.h"

namespace cairn::kernels::cpu {
namespace {

TEST(MlaOp, PreviousRowsAreZerosBeforeTheFirstPositionAndWithoutAPage) {
  constexpr int32_t kDim = 50;
  for (const int threads : {1, 3}) {
    const auto backend = make_cpu_backend({.threads = threads, .isa = "generic"}).value();
    Random random(3);
    RowPages one(*backend, KvType::kF32, kDim, 1, 70, random);
    one.store(0, 70);
    // One slice from the start over the end of a page, one from the middle, one of a single position, and one whose
    // first page was freed.
    AttentionSlice freed = one.slice(32, 34, 44);
    std::vector<PageId> pages(freed.pages.begin(), freed.pages.end());
    pages[0] = kNoPage;
    freed.pages = pages;
    const AttentionSlice slices[] = {one.slice(0, 40), one.slice(33, 36, 40), one.slice(64, 65, 43), freed};
    std::vector<float> out(size_t{46} * kDim, -1);
    backend->mla()->load_previous_rows(one.kv, slices, out.data());
    int64_t row = 0;
    for (const AttentionSlice& slice : slices) {
      for (int32_t i = 0; i < slice.rows; ++i, ++row) {
        const int32_t position = slice.position_begin + i;
        for (int32_t d = 0; d < kDim; ++d) {
          const bool none = position == 0 || slice.pages[(position - 1) / kPageTokens] == kNoPage;
          const float expected = none ? 0 : one.rows[(position - 1) * kDim + d];
          ASSERT_EQ(out[row * kDim + d], expected) << position << " " << d;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cairn::kernels::cpu
