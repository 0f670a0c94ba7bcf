// The choice of rows and of candidate blocks on the GPU: compared with plain sums and with the CPU, with equal scores,
// and for queries alone with the same among others.
#include "gpu/latent_pages.h"

namespace cairn::gpu {
namespace {

class GpuIndexer : public GpuTest {};

struct ChoiceShape {
  int32_t heads = 4;
  int32_t dim = 64;
  int32_t most = 8;
  kernels::KvType type = kernels::KvType::kF32;
  int32_t tokens_per_row = 1;
  bool ties = false;  // all numbers are small integers: sums are exact, and many are equal
};

/// Sequences with their index queries.
class Chooser {
 public:
  Chooser(kernels::Backend& backend, const ChoiceShape& shape, const std::vector<int32_t>& lengths, uint32_t seed)
      : backend_(backend),
        shape_(shape),
        random_(seed),
        pages_(backend, {.type = shape.type, .tokens_per_row = shape.tokens_per_row}, shape.dim, lengths, random_) {
    for (size_t s = 0; s < lengths.size(); ++s) {
      q_.push_back(random_.normals(int64_t{lengths[s]} * shape.heads * shape.dim));
      weights_.push_back(random_.normals(int64_t{lengths[s]} * shape.heads));
      if (!shape.ties) continue;
      for (auto* values : {&q_.back(), &weights_.back(), &pages_.rows(s)}) {
        for (float& value : *values) value = std::round(value);
      }
    }
  }

  /// Rows for each position of the parts, `most` each; what is not written is -1.
  std::vector<int32_t> choose(std::span<const Part> parts) {
    std::vector<int32_t> no_blocks;
    return choose(parts, {}, no_blocks);
  }
  /// The same with candidates, whose blocks are written or read in `blocks`, candidates.most for each position.
  std::vector<int32_t> choose(std::span<const Part> parts, kernels::CandidateBlocks candidates,
                              std::vector<int32_t>& blocks) {
    std::vector<float> q, weights;
    int64_t rows = 0;
    for (const Part& part : parts) {
      const auto some_q = rows_of(q_[part.sequence], int64_t{shape_.heads} * shape_.dim, part.begin, part.rows);
      const auto some_weights = rows_of(weights_[part.sequence], shape_.heads, part.begin, part.rows);
      q.insert(q.end(), some_q.begin(), some_q.end());
      weights.insert(weights.end(), some_weights.begin(), some_weights.end());
      rows += part.rows;
    }
    Arrays arrays(backend_);
    int32_t* chosen = arrays.put(std::vector<int32_t>(static_cast<size_t>(rows * shape_.most), -1));
    if (candidates.find) blocks.assign(static_cast<size_t>(rows * candidates.most), -1);
    candidates.blocks = arrays.put(blocks);
    backend_.mla()->select_topk({.heads = shape_.heads, .most = shape_.most, .candidates = candidates}, pages_.view,
                                pages_.slices(parts), arrays.put(q), arrays.put(weights), chosen);
    if (candidates.find) blocks = arrays.get(candidates.blocks, rows * candidates.most);
    return arrays.get(chosen, rows * shape_.most);
  }

  /// The sums of all rows that a position sees; exact with `ties`.
  std::vector<double> scores(size_t sequence, int32_t position) {
    std::vector<double> scores;
    for (int32_t row = 0; row < kernels::kv_rows(position + 1, shape_.tokens_per_row); ++row) {
      double sum = 0;
      for (int32_t h = 0; h < shape_.heads; ++h) {
        double product = 0;
        for (int32_t d = 0; d < shape_.dim; ++d) {
          product += double{q_[sequence][(int64_t{position} * shape_.heads + h) * shape_.dim + d]} *
                     pages_.rows(sequence)[int64_t{row} * shape_.dim + d];
        }
        sum += weights_[sequence][int64_t{position} * shape_.heads + h] * std::max(product, 0.0);
      }
      scores.push_back(sum);
    }
    return scores;
  }
  Pages& pages() { return pages_; }
  std::vector<float>& weights(size_t sequence) { return weights_[sequence]; }

 private:
  kernels::Backend& backend_;
  const ChoiceShape shape_;
  Random random_;
  Pages pages_;
  std::vector<std::vector<float>> q_;
  std::vector<std::vector<float>> weights_;
};

/// The indices of the `most` largest scores, ascending; of equal ones the first.
std::vector<int32_t> first_largest(const std::vector<double>& scores, int32_t most) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int32_t i) { return scores[static_cast<size_t>(i)]; });
  order.resize(std::min(order.size(), static_cast<size_t>(most)));
  std::ranges::sort(order);
  return order;
}

TEST_F(GpuIndexer, ChoosesTheLargestSums) {
  const ChoiceShape shapes[] = {
      {.heads = 64, .dim = 128, .most = 20},
      {.heads = 3, .dim = 5, .most = 1, .type = kernels::KvType::kF16},
      {.heads = 33, .dim = 40, .most = 33, .type = kernels::KvType::kQ8_0},
      {.heads = 5, .dim = 24, .most = 9, .type = kernels::KvType::kBF16},
      {.heads = 8, .dim = 32, .most = 7, .tokens_per_row = 4},
  };
  uint32_t seed = 200;
  for (const ChoiceShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 200);
    Chooser chooser(gpu(), shape, {150, 60}, seed++);
    const Part all[] = {{0, 0, 150}, {1, 0, 60}};
    chooser.pages().store(all);
    const Part parts[] = {{0, 100, 50}, {1, 0, 60}};
    const std::vector<int32_t> chosen = chooser.choose(parts);
    int64_t query = 0;
    for (const Part& part : parts) {
      for (int32_t position = part.begin; position < part.begin + part.rows; ++position, ++query) {
        const std::vector<double> scores = chooser.scores(part.sequence, position);
        const auto list = rows_of(chosen, shape.most, query, 1);
        const size_t count = std::min(scores.size(), static_cast<size_t>(shape.most));
        const auto rows = list.first(count);
        EXPECT_TRUE(std::ranges::all_of(list.subspan(count), [](int32_t row) { return row == -1; }));
        // No row that is left out has a larger sum than a selected one, except for rounding.
        double least = std::numeric_limits<double>::infinity(), most = -least;
        for (size_t row = 0; row < scores.size(); ++row) {
          const bool taken = std::ranges::binary_search(rows, static_cast<int32_t>(row));
          if (taken) least = std::min(least, scores[row]);
          if (!taken) most = std::max(most, scores[row]);
        }
        ASSERT_TRUE(std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end()) << "position " << position;
        ASSERT_GE(least, most - 1e-3) << "position " << position;
      }
    }
  }
}

TEST_F(GpuIndexer, OfEqualSumsTheFirstIsSelected) {
  for (const int32_t most : {1, 5, 33, 150}) {
    const ChoiceShape shape{.heads = 2, .dim = 4, .most = most, .ties = true};
    constexpr int32_t kTokens = 700;  // more than one row for each lane of each warp
    Chooser chooser(gpu(), shape, {kTokens}, 300 + static_cast<uint32_t>(most));
    const Part all{0, 0, kTokens};
    chooser.pages().store({&all, 1});
    const Part parts[] = {{0, 640, 60}, {0, 0, 1}, {0, 40, 9}, {0, 148, 4}};
    // Queries with only NaN, and zeros of both signs.
    for (const int32_t h : {0, 1}) chooser.weights(0)[2 * 650 + h] = std::numeric_limits<float>::quiet_NaN();
    for (const int32_t h : {0, 1}) chooser.weights(0)[2 * 651 + h] = h == 0 ? -1 : 0;
    for (const int32_t h : {0, 1}) chooser.weights(0)[2 * 652 + h] = std::numeric_limits<float>::infinity();
    const std::vector<int32_t> chosen = chooser.choose(parts);
    int64_t query = 0;
    for (const Part& part : parts) {
      for (int32_t position = part.begin; position < part.begin + part.rows; ++position, ++query) {
        std::vector<double> scores = chooser.scores(0, position);
        for (double& score : scores) score = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
        const std::vector<int32_t> expected = first_largest(scores, most);
        const auto list = rows_of(chosen, most, query, 1).first(expected.size());
        ASSERT_EQ(std::vector<int32_t>(list.begin(), list.end()), expected) << most << " of position " << position;
      }
    }
  }
}

TEST_F(GpuIndexer, ASelectionDoesNotDependOnItsNeighbours) {
  constexpr int32_t kTokens = 150;
  const ChoiceShape shape{.heads = 33, .dim = 8, .most = 30, .type = kernels::KvType::kF16};
  Chooser chooser(gpu(), shape, {kTokens, 40}, 400);
  const Part all[] = {{0, 0, kTokens}, {1, 0, 40}};
  chooser.pages().store(all);
  const std::vector<int32_t> whole = chooser.choose(all);  // more rows than a run has
  std::vector<int32_t> pieces;
  for (int32_t at = 0, rows = 0; at < kTokens; at += rows) {
    rows = std::min(1 + at % 50, kTokens - at);
    const Part parts[] = {{0, at, rows}, {1, 3, 20}};
    const std::vector<int32_t> some = chooser.choose(parts);
    pieces.insert(pieces.end(), some.begin(), some.begin() + int64_t{rows} * shape.most);
  }
  EXPECT_TRUE(std::equal(pieces.begin(), pieces.end(), whole.begin()));
}

// More scores than there is room for at once.
TEST_F(GpuIndexer, SelectsFromMoreScoresThanAreHeldAtOnce) {
  constexpr int32_t kTokens = 8'400, kQueries = 128, kMost = 40;
  const ChoiceShape shape{.heads = 1, .dim = 4, .most = kMost, .ties = true};
  Chooser chooser(gpu(), shape, {kTokens}, 500);
  const Part all{0, 0, kTokens}, last{0, kTokens - kQueries, kQueries};
  chooser.pages().store({&all, 1});
  const std::vector<int32_t> chosen = chooser.choose({&last, 1});
  for (const int32_t query : {0, 100, kQueries - 2, kQueries - 1}) {
    const auto list = rows_of(chosen, kMost, query, 1);
    EXPECT_EQ(std::vector<int32_t>(list.begin(), list.end()),
              first_largest(chooser.scores(0, kTokens - kQueries + query), kMost));
  }
}

/// A score as it is compared.
double compared(double score) { return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score; }

/// The best blocks of rows with these scores.
std::vector<int32_t> best_blocks(const std::vector<double>& scores, const kernels::CandidateBlocks& candidates) {
  const auto rows = static_cast<size_t>(candidates.rows);
  std::vector<double> best;
  for (size_t begin = 0; begin + rows <= scores.size(); begin += rows) {
    double largest = compared(scores[begin]);
    for (size_t i = 1; i < rows; ++i) largest = std::max(largest, compared(scores[begin + i]));
    best.push_back(largest);
  }
  const bool unseen = scores.size() % rows != 0;
  std::vector<int32_t> blocks = first_largest(best, candidates.most - (unseen ? 1 : 0));
  if (unseen) blocks.push_back(static_cast<int32_t>(best.size()));
  return blocks;
}

/// The rows with the largest scores among those of the blocks.
std::vector<int32_t> best_rows(const std::vector<double>& scores, const std::vector<int32_t>& blocks,
                               int32_t block_rows, int32_t most) {
  std::vector<int32_t> rows;
  std::vector<double> left;
  for (const int32_t block : blocks) {
    for (int32_t row = block * block_rows;
         row < std::min((block + 1) * block_rows, static_cast<int32_t>(scores.size())); ++row) {
      rows.push_back(row);
      left.push_back(compared(scores[static_cast<size_t>(row)]));
    }
  }
  std::vector<int32_t> chosen;
  for (const int32_t i : first_largest(left, most)) chosen.push_back(rows[static_cast<size_t>(i)]);
  return chosen;
}

struct CandidateShape {
  ChoiceShape choice;
  int32_t rows = 0;  // of a block
  int32_t blocks = 0;
  int32_t tokens = 0;
};

// Blocks of one row, of a number that divides nothing, rows of several positions, more blocks than a thread block has
// threads, and no more blocks than are candidates.
const CandidateShape kCandidateShapes[] = {
    {{.heads = 2, .dim = 4, .most = 12, .ties = true}, 8, 4, 150},
    {{.heads = 2, .dim = 4, .most = 9, .ties = true}, 1, 10, 150},
    {{.heads = 2, .dim = 4, .most = 5, .type = kernels::KvType::kF16, .ties = true}, 7, 3, 150},
    {{.heads = 2, .dim = 4, .most = 4, .tokens_per_row = 2, .ties = true}, 3, 5, 150},
    {{.heads = 2, .dim = 4, .most = 33, .ties = true}, 2, 40, 1'300},
    {{.heads = 2, .dim = 4, .most = 33, .ties = true}, 3, 100, 150},
};

// Of equal scores the first ones are taken, of rows and of blocks.
TEST_F(GpuIndexer, FindsTheBestBlocksAndChoosesOnlyTheirRows) {
  uint32_t seed = 600;
  for (const CandidateShape& shape : kCandidateShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 600);
    const int32_t tokens = shape.tokens, most = shape.choice.most;
    Chooser finder(gpu(), shape.choice, {tokens}, seed), reader(gpu(), shape.choice, {tokens}, seed + 50);
    ++seed;
    const Part all{0, 0, tokens};
    for (Chooser* each : {&finder, &reader}) {
      each->pages().store({&all, 1});
      // Queries with only NaN, with infinities of both signs, and all equal.
      for (const int32_t h : {0, 1}) {
        each->weights(0)[2 * (tokens - 3) + h] = std::numeric_limits<float>::quiet_NaN();
        each->weights(0)[2 * (tokens - 4) + h] = std::numeric_limits<float>::infinity() * (h == 0 ? 1 : -1);
        each->weights(0)[2 * (tokens - 5) + h] = 0;
      }
    }
    const Part parts[] = {{0, tokens - 20, 20}, {0, 0, 1}, {0, 40, 9}, {0, tokens / 2, 6}};
    const kernels::CandidateBlocks found{.rows = shape.rows, .most = shape.blocks, .find = true};
    const kernels::CandidateBlocks read{.rows = shape.rows, .most = shape.blocks};
    std::vector<int32_t> blocks;
    const std::vector<int32_t> chosen = finder.choose(parts, found, blocks);
    const std::vector<int32_t> among = reader.choose(parts, read, blocks), freely = reader.choose(parts);
    int64_t query = 0;
    for (const Part& part : parts) {
      for (int32_t position = part.begin; position < part.begin + part.rows; ++position, ++query) {
        SCOPED_TRACE(testing::Message() << "position " << position);
        const auto list_of = [&](const std::vector<int32_t>& lists, int32_t longest, size_t count) {
          const auto list = rows_of(lists, longest, query, 1);
          EXPECT_TRUE(std::ranges::all_of(list.subspan(count), [](int32_t number) { return number == -1; }));
          return std::vector<int32_t>(list.begin(), list.begin() + static_cast<int64_t>(count));
        };
        const std::vector<double> scores = finder.scores(0, position), others = reader.scores(0, position);
        const std::vector<int32_t> best = best_blocks(scores, found);
        ASSERT_EQ(list_of(blocks, shape.blocks, best.size()), best);
        std::vector<double> plain = scores;
        std::ranges::transform(plain, plain.begin(), compared);
        const std::vector<int32_t> rows = first_largest(plain, most);
        ASSERT_EQ(list_of(chosen, most, rows.size()), rows);
        const std::vector<int32_t> of_blocks = best_rows(others, best, shape.rows, most);
        ASSERT_EQ(list_of(among, most, of_blocks.size()), of_blocks);
      }
    }
    // With more blocks than are candidates the blocks matter.
    const bool bounded = kernels::kv_rows(tokens, shape.choice.tokens_per_row) > shape.blocks * shape.rows;
    EXPECT_EQ(among != freely, bounded);
  }
}

// Without equal scores, since of these the CPU takes others.
TEST_F(GpuIndexer, CandidatesAgreeWithTheCpu) {
  const ChoiceShape shape{.heads = 40, .dim = 32, .most = 10};
  constexpr int32_t kTokens = 150, kBlockRows = 4, kBlocks = 6;
  const Part all[] = {{0, 0, kTokens}, {1, 0, 60}};
  const auto choices = [&](kernels::Backend& backend) {
    Chooser finder(backend, shape, {kTokens, 60}, 700), reader(backend, shape, {kTokens, 60}, 701);
    std::vector<std::vector<int32_t>> lists(3);
    for (Chooser* each : {&finder, &reader}) each->pages().store(all);
    lists[0] = finder.choose(all, {.rows = kBlockRows, .most = kBlocks, .find = true}, lists[2]);
    lists[1] = reader.choose(all, {.rows = kBlockRows, .most = kBlocks}, lists[2]);
    return lists;
  };
  EXPECT_EQ(choices(gpu()), choices(cpu()));
}

TEST_F(GpuIndexer, CandidatesDoNotDependOnTheirNeighbours) {
  constexpr int32_t kTokens = kEmulated ? 150 : 300, kBlockRows = 3, kBlocks = 12;
  const ChoiceShape shape{.heads = 33, .dim = 8, .most = 30, .type = kernels::KvType::kF16};
  // Of its own, since a run of gpu() is as long as the longest step of any test before.
  const auto backend = reserved(kernels::make_cuda_backend({})).value();
  Chooser finder(*backend, shape, {kTokens, 40}, 800), reader(*backend, shape, {kTokens, 40}, 801);
  const Part all[] = {{0, 0, kTokens}, {1, 0, 40}};
  for (Chooser* each : {&finder, &reader}) each->pages().store(all);
  const auto choose = [&](std::span<const Part> parts, std::vector<int32_t>& blocks) {
    finder.choose(parts, {.rows = kBlockRows, .most = kBlocks, .find = true}, blocks);
    return reader.choose(parts, {.rows = kBlockRows, .most = kBlocks}, blocks);
  };
  std::vector<int32_t> whole_blocks, pieces, piece_blocks;
  const std::vector<int32_t> whole = choose(all, whole_blocks);  // more rows than a run has
  for (int32_t at = 0, rows = 0; at < kTokens; at += rows) {
    rows = std::min(1 + at % 50, kTokens - at);
    const Part parts[] = {{0, at, rows}, {1, 3, 20}};
    std::vector<int32_t> blocks;
    const std::vector<int32_t> some = choose(parts, blocks);
    pieces.insert(pieces.end(), some.begin(), some.begin() + int64_t{rows} * shape.most);
    piece_blocks.insert(piece_blocks.end(), blocks.begin(), blocks.begin() + int64_t{rows} * kBlocks);
  }
  EXPECT_TRUE(std::equal(pieces.begin(), pieces.end(), whole.begin()));
  EXPECT_TRUE(std::equal(piece_blocks.begin(), piece_blocks.end(), whole_blocks.begin()));
}

}  // namespace
}  // namespace cairn::gpu
