#include "kernels/cpu/mla/indexer_topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/mla/mla_test_support.h"

namespace cairn::kernels::cpu {
namespace {

TEST(ChooseLargest, ChoosesTheSameIndicesAsSorting) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int32_t n = random.integer(2, 300), most = random.integer(1, n - 1);
    std::vector<float> scores = random.normals(n);
    // Ties, zeros of both signs, NaN and infinities.
    for (float& score : scores) {
      switch (random.integer(0, 7)) {
        case 0:
          score = 0;
          break;
        case 1:
          score = -0.0f;
          break;
        case 2:
          score = 0.5f;
          break;
        case 3:
          score = seed % 2 == 0 ? score : std::numeric_limits<float>::quiet_NaN();
          break;
        case 4:
          score = random.integer(0, 1) == 0 ? INFINITY : -INFINITY;
          break;
        default:
          break;
      }
    }
    std::vector<int32_t> chosen(static_cast<size_t>(most), -1);
    choose_largest(scores.data(), n, most, chosen.data());
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](int32_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
    std::partial_sort(order.begin(), order.begin() + most, order.end(),
                      [&](int32_t a, int32_t b) { return value(a) > value(b); });
    order.resize(static_cast<size_t>(most));
    std::ranges::sort(order);
    EXPECT_EQ(chosen, order);
  }
}

struct IndexerShape {
  int32_t heads = 4;
  int32_t dim = 64;
  int32_t most = 8;
  KvType type = KvType::kF32;
  int32_t tokens_per_row = 1;
  int32_t tokens = 100;
};

/// The queries and rows of one sequence.
class IndexedSequence {
 public:
  IndexedSequence(Backend& backend, const IndexerShape& shape, Random& random)
      : backend_(backend),
        shape_(shape),
        keys(backend, shape.type, shape.dim, shape.tokens_per_row, shape.tokens, random),
        q(random.normals(int64_t{shape.tokens} * shape.heads * shape.dim)),
        weights(random.normals(int64_t{shape.tokens} * shape.heads)) {}

  std::vector<int32_t> choose(int32_t begin, int32_t end) {
    keys.store(begin, end);
    std::vector<int32_t> chosen(static_cast<size_t>(end - begin) * shape_.most, -1);
    const AttentionSlice slice = keys.slice(begin, end);
    backend_.mla()->select_topk({.heads = shape_.heads, .most = shape_.most}, keys.kv, {&slice, 1},
                                q.data() + int64_t{begin} * shape_.heads * shape_.dim,
                                weights.data() + int64_t{begin} * shape_.heads, chosen.data());
    return chosen;
  }

  double score(int32_t position, int32_t row) const {
    double sum = 0;
    for (int32_t h = 0; h < shape_.heads; ++h) {
      double product = 0;
      for (int32_t d = 0; d < shape_.dim; ++d) {
        product += double{q[(int64_t{position} * shape_.heads + h) * shape_.dim + d]} *
                   keys.rows[int64_t{row} * shape_.dim + d];
      }
      sum += weights[int64_t{position} * shape_.heads + h] * std::max(product, 0.0);
    }
    return sum;
  }

 private:
  Backend& backend_;
  IndexerShape shape_;

 public:
  RowPages keys;
  std::vector<float> q;
  std::vector<float> weights;
};

class IndexerTopKTest : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, IndexerTopKTest, ::testing::ValuesIn(isas_under_test()), isa_test_name);

TEST_P(IndexerTopKTest, ChoosesTheLargestSums) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const auto backend = make_backend(GetParam(), 1 + static_cast<int>(seed % 3));
    IndexerShape shape;
    const bool is_long = seed % 6 == 0;
    shape.heads = random.integer(1, is_long ? 4 : 70);
    shape.dim = random.integer(3, 90);
    shape.most = random.integer(1, 40);
    constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kBF16};
    shape.type = kTypes[seed % 4];
    shape.tokens_per_row = seed % 5 == 3 ? 4 : 1;
    shape.tokens = random.integer(1, is_long ? 1300 : 150);
    IndexedSequence sequence(*backend, shape, random);
    const std::vector<int32_t> chosen = sequence.choose(0, shape.tokens);
    for (int32_t position = 0; position < shape.tokens; position += 1 + shape.tokens / 20) {
      const int32_t seen = (position + 1) / shape.tokens_per_row;
      const int32_t read = std::min(seen, shape.most);
      const auto list = std::span(chosen).subspan(static_cast<size_t>(position) * shape.most, shape.most);
      EXPECT_TRUE(std::ranges::all_of(list.subspan(read), [](int32_t row) { return row == -1; }));
      const auto rows = list.first(static_cast<size_t>(read));
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_TRUE(rows[i] > (i == 0 ? -1 : rows[i - 1]) && rows[i] < seen) << "position " << position;
      }
      // No row that is left out has a larger sum than a chosen one, except for rounding.
      double least = std::numeric_limits<double>::infinity(), most = -least;
      for (int32_t row = 0; row < seen; ++row) {
        const double score = sequence.score(position, row);
        if (std::ranges::binary_search(rows, row)) {
          least = std::min(least, score);
        } else {
          most = std::max(most, score);
        }
      }
      if (read < seen) {
        EXPECT_GE(least, most - 1e-3) << "position " << position;
      }
    }
  }
}

TEST_P(IndexerTopKTest, AChoiceDoesNotDependOnChunksOrThreads) {
  constexpr int32_t kTokens = 700;
  const IndexerShape shape{.heads = 33, .dim = 8, .most = 30, .type = KvType::kF16, .tokens = kTokens};
  std::optional<std::vector<int32_t>> whole;
  for (const int threads : {1, 2, 3}) {
    Random random(30);
    const auto backend = make_backend(GetParam(), threads);
    IndexedSequence sequence(*backend, shape, random);
    if (!whole) whole = sequence.choose(0, kTokens);
    std::vector<int32_t> pieces;
    for (int32_t begin = 0; begin < kTokens;) {
      const int32_t end = std::min(kTokens, begin + (begin > kTokens - 5 ? 1 : random.integer(1, 300)));
      const std::vector<int32_t> part = sequence.choose(begin, end);
      pieces.insert(pieces.end(), part.begin(), part.end());
      begin = end;
    }
    EXPECT_EQ(*whole, pieces) << threads << " threads";
  }
}

}  // namespace
}  // namespace cairn::kernels::cpu
