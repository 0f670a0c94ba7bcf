#include "kernels/cpu/mla/mla_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/mla/mla_test_support.h"

namespace cairn::kernels::cpu {
namespace {

struct SourceShape {
  KvType type = KvType::kF32;
  int32_t tokens_per_row = 1;
  int32_t window = 0;
  int32_t chosen_max = 0;  // > 0: random rows
};

struct LatentShape {
  int32_t heads = 4;
  int32_t dim = 48;
  int32_t value_dim = 32;
  bool sinks = false;
  std::vector<SourceShape> sources = {{}};
};

LatentShape random_latent_shape(Random& random) {
  constexpr int32_t kDims[] = {8, 20, 33, 48, 72, 100, 192};
  constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kBF16};
  const auto type = [&] { return kTypes[random.integer(0, 3)]; };
  LatentShape shape;
  shape.heads = random.integer(1, 70);
  shape.dim = kDims[random.integer(0, 6)];
  shape.value_dim = random.integer(0, 2) == 0 ? shape.dim : random.integer(1, shape.dim);
  shape.sinks = random.integer(0, 1) == 0;
  shape.sources = {{.type = type()}};
  if (random.integer(0, 1) == 0) shape.sources[0].window = random.integer(1, 200);
  if (random.integer(0, 1) == 0) {
    constexpr int32_t kRatios[] = {1, 4, 32, 128};
    shape.sources.push_back({.type = type(), .tokens_per_row = kRatios[random.integer(0, 3)]});
  }
  if (random.integer(0, 1) == 0) {
    shape.sources.back().window = 0;
    shape.sources.back().chosen_max = random.integer(1, 150);
  }
  return shape;
}

class LatentSequence {
 public:
  LatentSequence(Backend& backend, const LatentShape& shape, int32_t tokens, Random& random)
      : backend_(backend), shape_(shape) {
    q = random.normals(int64_t{tokens} * shape.heads * shape.dim);
    sinks_ = random.normals(shape.heads, 2);
    for (const SourceShape& source : shape.sources) {
      sources_.push_back(
          std::make_unique<RowPages>(backend, source.type, shape.dim, source.tokens_per_row, tokens, random));
      chosen_.emplace_back(static_cast<size_t>(tokens) * source.chosen_max, -1);
      for (int32_t p = 0; p < tokens && source.chosen_max > 0; ++p) choose(source, p, random);
    }
  }

  /// Stores positions [begin, end), then attends to them.
  std::vector<float> attend(int32_t begin, int32_t end) {
    for (const auto& pages : sources_) pages->store(begin, end);
    return attend_stored(begin, end);
  }

  std::vector<float> attend_stored(int32_t begin, int32_t end) const {
    std::vector<AttentionSlice> slices;
    for (const auto& pages : sources_) slices.push_back(pages->slice(begin, end));
    std::vector<RowSource> sources;
    for (size_t s = 0; s < sources_.size(); ++s) {
      RowSource source{.kv = sources_[s]->kv, .slices = {&slices[s], 1}, .window = shape_.sources[s].window};
      const int32_t most = shape_.sources[s].chosen_max;
      if (most > 0) {
        source.chosen = chosen_[s].data() + int64_t{begin} * most;
        source.chosen_max = most;
      }
      sources.push_back(source);
    }
    std::vector<float> out(static_cast<size_t>(end - begin) * out_cols());
    backend_.mla()->attend_rows(params(), sources, q.data() + int64_t{begin} * shape_.heads * shape_.dim, out.data());
    return out;
  }

  /// The attention of one query, in double precision. Empty if it reads no rows.
  std::vector<double> truth(int32_t position) const {
    std::vector<const float*> rows;
    for (size_t s = 0; s < sources_.size(); ++s) {
      const SourceShape& source = shape_.sources[s];
      const int32_t seen = (position + 1) / source.tokens_per_row;
      const int32_t read = source.chosen_max > 0 ? std::min(seen, source.chosen_max)
                           : source.window > 0   ? std::min(seen, source.window)
                                                 : seen;
      for (int32_t i = 0; i < read; ++i) {
        const int32_t row =
            source.chosen_max > 0 ? chosen_[s][int64_t{position} * source.chosen_max + i] : seen - read + i;
        rows.push_back(sources_[s]->rows.data() + int64_t{row} * shape_.dim);
      }
    }
    std::vector<double> out;
    for (int32_t head = 0; head < shape_.heads && !rows.empty(); ++head) {
      const float* query = q.data() + (int64_t{position} * shape_.heads + head) * shape_.dim;
      std::vector<double> scores;
      for (const float* row : rows) {
        double score = 0;
        for (int32_t d = 0; d < shape_.dim; ++d) score += double{query[d]} * row[d];
        scores.push_back(score * params().scale);
      }
      const double largest = *std::ranges::max_element(scores);
      double sum = shape_.sinks ? std::exp(sinks_[head] - largest) : 0;
      for (double& score : scores) sum += score = std::exp(score - largest);
      for (int32_t d = 0; d < shape_.value_dim; ++d) {
        double value = 0;
        for (size_t r = 0; r < rows.size(); ++r) value += scores[r] * rows[r][d];
        out.push_back(value / sum);
      }
    }
    return out;
  }

  int64_t out_cols() const { return int64_t{shape_.heads} * shape_.value_dim; }
  RowPages& pages(size_t source) { return *sources_[source]; }
  RowAttentionParams params() const {
    return {.heads = shape_.heads,
            .value_dim = shape_.value_dim,
            .scale = 1 / std::sqrt(static_cast<float>(shape_.dim)),
            .sinks = shape_.sinks ? sinks_.data() : nullptr};
  }

  std::vector<float> q;

 private:
  void choose(const SourceShape& source, int32_t position, Random& random) {
    const int32_t seen = (position + 1) / source.tokens_per_row;
    std::set<int32_t> rows;
    while (static_cast<int32_t>(rows.size()) < std::min(seen, source.chosen_max)) {
      rows.insert(random.integer(0, seen - 1));
    }
    std::ranges::copy(rows, chosen_.back().begin() + int64_t{position} * source.chosen_max);
  }

  Backend& backend_;
  LatentShape shape_;
  std::vector<float> sinks_;
  std::vector<std::unique_ptr<RowPages>> sources_;
  std::vector<std::vector<int32_t>> chosen_;
};

class MlaAttentionTest : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, MlaAttentionTest, ::testing::ValuesIn(isas_under_test()), isa_test_name);

TEST_P(MlaAttentionTest, AgreesWithDoublePrecision) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const auto backend = make_backend(GetParam(), 1 + static_cast<int>(seed % 2));
    LatentShape shape = random_latent_shape(random);
    const bool is_long = seed % 5 == 0;
    if (is_long) shape.heads = random.integer(1, 4);
    const int32_t tokens = random.integer(1, is_long ? 1200 : 130);
    LatentSequence sequence(*backend, shape, tokens, random);
    const std::vector<float> out = sequence.attend(0, tokens);
    double error = 0, power = 0;
    for (int32_t row = 0; row < tokens; row += 1 + tokens / 15) {
      const std::vector<double> truth = sequence.truth(row);
      for (size_t c = 0; c < truth.size(); ++c) {
        const double difference = out[row * sequence.out_cols() + static_cast<int64_t>(c)] - truth[c];
        ASSERT_LT(std::abs(difference), 1e-5) << "row " << row << " column " << c;
        error += difference * difference;
        power += truth[c] * truth[c];
      }
    }
    EXPECT_LE(error, 1e-12 * power);
  }
}

TEST_P(MlaAttentionTest, AQueryDoesNotDependOnChunksOrThreads) {
  for (uint32_t seed = 40; seed < 45; ++seed) {
    std::optional<std::vector<float>> whole;
    for (const int threads : {1, 2, 3}) {
      Random random(seed);
      SCOPED_TRACE(random.trace());
      const auto backend = make_backend(GetParam(), threads);
      LatentShape shape = random_latent_shape(random);
      shape.heads = random.integer(1, seed == 40 ? 3 : 40);
      shape.dim = std::min(shape.dim, 33);
      shape.value_dim = std::min(shape.value_dim, shape.dim);
      const int32_t tokens = seed == 40 ? 600 : 130;
      LatentSequence sequence(*backend, shape, tokens, random);
      if (!whole) whole = sequence.attend(0, tokens);
      Random pieces(seed);
      std::vector<float> out;
      for (int32_t begin = 0; begin < tokens;) {
        const int32_t end = std::min(tokens, begin + (begin > tokens - 12 ? 1 : pieces.integer(1, tokens / 2)));
        const std::vector<float> part = sequence.attend(begin, end);
        out.insert(out.end(), part.begin(), part.end());
        begin = end;
      }
      EXPECT_TRUE(same_bits(*whole, out)) << threads << " threads";
    }
  }
}

TEST_P(MlaAttentionTest, SplittingTheLongContextOfOneQueryDoesNotChangeItsResult) {
  constexpr int32_t kTokens = 5000;
  const LatentShape shape{
      .heads = 3, .dim = 24, .value_dim = 16, .sinks = true, .sources = {{}, {.tokens_per_row = 4}}};
  std::optional<std::vector<float>> first;
  for (const int threads : {1, 2, 4}) {
    Random random(50);
    const auto backend = make_backend(GetParam(), threads);
    LatentSequence sequence(*backend, shape, kTokens, random);
    sequence.pages(0).store(0, kTokens);
    sequence.pages(1).store(0, kTokens);
    const std::vector<float> out = sequence.attend_stored(kTokens - 1, kTokens);
    const std::vector<double> truth = sequence.truth(kTokens - 1);
    for (size_t c = 0; c < truth.size(); ++c) EXPECT_NEAR(out[c], truth[c], 1e-6);
    if (!first) first = out;
    EXPECT_TRUE(same_bits(*first, out)) << threads << " threads";
  }
}

TEST_P(MlaAttentionTest, ABatchOfSequencesGivesTheResultsOfEachAlone) {
  constexpr int32_t kTokens[] = {70, 1, 700, 33};
  const LatentShape shape{.heads = 5, .dim = 40, .value_dim = 40, .sources = {{.type = KvType::kF16, .window = 90}}};
  for (const int threads : {1, 3}) {
    Random random(60);
    const auto backend = make_backend(GetParam(), threads);
    std::vector<std::unique_ptr<LatentSequence>> sequences;
    std::vector<float> q, alone;
    for (const int32_t tokens : kTokens) {
      sequences.push_back(std::make_unique<LatentSequence>(*backend, shape, tokens, random));
      const std::vector<float> out = sequences.back()->attend(0, tokens);
      alone.insert(alone.end(), out.begin(), out.end());
      q.insert(q.end(), sequences.back()->q.begin(), sequences.back()->q.end());
    }
    // One memory holds the pages of all sequences, one after the other.
    KvView together = sequences[0]->pages(0).kv;
    std::vector<std::vector<PageId>> tables;
    int32_t pages = 0;
    for (const auto& sequence : sequences) {
      for (tables.emplace_back(); tables.back().size() < sequence->pages(0).pages.size();) {
        tables.back().push_back(PageId{pages++});
      }
    }
    const Buffer memory = backend->allocate(pages * together.page_stride).value();
    together.base = static_cast<std::byte*>(memory.data());
    std::vector<AttentionSlice> slices;
    std::vector<float> rows;
    int32_t row = 0;
    for (size_t s = 0; s < sequences.size(); row += kTokens[s++]) {
      slices.push_back({row, kTokens[s], 0, tables[s]});
      rows.insert(rows.end(), sequences[s]->pages(0).rows.begin(), sequences[s]->pages(0).rows.end());
    }
    backend->mla()->store_rows(together, slices, rows.data());
    std::vector<float> out(alone.size());
    const RowSource source{.kv = together, .slices = slices, .window = 90};
    backend->mla()->attend_rows(sequences[0]->params(), {&source, 1}, q.data(), out.data());
    EXPECT_TRUE(same_bits(alone, out)) << threads << " threads";
  }
}

TEST_P(MlaAttentionTest, PagesBeforeTheWindowAreNotRead) {
  constexpr int32_t kTokens = 300, kWindow = 40;
  Random random(70);
  const auto backend = make_backend(GetParam(), 2);
  LatentSequence sequence(*backend, {.sources = {{.type = KvType::kQ8_0, .window = kWindow}}}, kTokens, random);
  const std::vector<float> before = sequence.attend(0, kTokens);
  for (int32_t page = 0; page < (kTokens - kWindow) / kPageTokens; ++page) {
    sequence.pages(0).pages[static_cast<size_t>(page)] = kNoPage;
  }
  const std::vector<float> after = sequence.attend(kTokens - 1, kTokens);
  EXPECT_TRUE(same_bits(after, std::span(before).last(after.size())));
}

}  // namespace
}  // namespace cairn::kernels::cpu
