// Compares attention over whole rows, and their selection, on the GPU with the CPU's: every type of rows, windows,
// sinks, compressed rows, two sources, selected rows; and sequences alone with the same among others, however they were
// cut.
#include <numeric>
#include <set>

#include "gpu/lab.h"
#include "gpu/same_rows.h"
#include "kernels/cuda/cuda_backend.h"

namespace cairn::gpu {
namespace {

struct SourceShape {
  KvType type = KvType::kF32;
  int32_t tokens_per_row = 1;
  int32_t window = 0;
  int32_t chosen_max = 0;  // > 0: random rows
};

/// Rows of several sequences, and their pages on one backend.
class Pages {
 public:
  Pages(Backend& backend, const SourceShape& shape, int32_t dim, std::span<const int32_t> lengths, Random& random)
      : backend_(backend), memory_(backend) {
    int32_t count = 3;  // unused pages
    for (const int32_t tokens : lengths) count += (tokens + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.integer(0, static_cast<int32_t>(i))]);
    }
    for (const int32_t tokens : lengths) {
      Sequence& made = sequences_.emplace_back();
      made.rows = random.normals(int64_t{kv_rows(tokens, shape.tokens_per_row)} * dim);
      cpu::round_rows(shape.type, dim, made.rows);
      for (int32_t page = 0; page * kPageTokens < tokens; ++page) {
        made.pages.push_back(PageId{order.back()});
        order.pop_back();
      }
    }
    view = {.type = shape.type, .kv_heads = 1, .key_dim = dim, .tokens_per_row = shape.tokens_per_row};
    view.layer_offset = 64;
    view.page_stride = (view.rows_per_page() * kv_row_bytes(shape.type, dim) + 63) / 64 * 64 + 128;
    // Memory that is not written yet is NaN in all types, so that reading it is noticed.
    const std::vector<uint8_t> ones(static_cast<size_t>(view.page_stride * count), 0xff);
    view.base = reinterpret_cast<std::byte*>(memory_.put(ones));
  }

  std::vector<AttentionSlice> slices(std::span<const Part> parts) const {
    std::vector<AttentionSlice> slices;
    int32_t row = 0;
    for (const Part& part : parts) {
      slices.push_back({row, part.rows, part.begin, sequences_[part.sequence].pages});
      row += part.rows;
    }
    return slices;
  }
  /// Stores the rows that the parts complete.
  void store(std::span<const Part> parts) {
    std::vector<float> x;
    for (const Part& part : parts) {
      const int32_t first = kv_rows(part.begin, view.tokens_per_row);
      const int32_t end = kv_rows(part.begin + part.rows, view.tokens_per_row);
      const auto rows = rows_of(sequences_[part.sequence].rows, view.key_dim, first, end - first);
      x.insert(x.end(), rows.begin(), rows.end());
    }
    Arrays arrays(backend_);
    backend_.latent()->store_rows(view, slices(parts), x.empty() ? arrays.make(1) : arrays.put(x));
    EXPECT_TRUE(backend_.finish().has_value());
  }
  std::vector<float>& rows(size_t sequence) { return sequences_[sequence].rows; }
  /// Overwrites the pages before the one of `position`, as if others used them.
  void forget_before(size_t sequence, int32_t position) {
    for (int32_t page = 0; page < position / kPageTokens; ++page) sequences_[sequence].pages[page] = kNoPage;
  }

  KvView view;

 private:
  struct Sequence {
    std::vector<float> rows;
    std::vector<PageId> pages;
  };
  Backend& backend_;
  Arrays memory_;
  std::vector<Sequence> sequences_;
};

struct Shape {
  int32_t heads = 5;
  int32_t dim = 48;
  int32_t value_dim = 32;
  bool sinks = false;
  std::vector<SourceShape> sources = {{}};
};

class Lab {
 public:
  Lab(Backend& backend, const Shape& shape, std::vector<int32_t> lengths, uint32_t seed)
      : backend_(backend), shape_(shape), memory_(backend) {
    Random random(seed);
    for (const SourceShape& source : shape.sources) {
      sources_.push_back(std::make_unique<Pages>(backend, source, shape.dim, lengths, random));
    }
    for (const int32_t tokens : lengths) {
      q_.push_back(random.normals(int64_t{tokens} * shape.heads * shape.dim));
      auto& chosen = chosen_.emplace_back();
      for (const SourceShape& source : shape.sources) chosen.push_back(choose(source, tokens, random));
    }
    params_ = {.heads = shape.heads,
               .value_dim = shape.value_dim,
               .scale = 1 / std::sqrt(static_cast<float>(shape.dim)),
               .sinks = shape.sinks ? memory_.put(random.normals(shape.heads, 2)) : nullptr};
  }

  /// Stores the parts' rows and attends, in one call for each source; gives a row of heads * value_dim for each
  /// position.
  std::vector<float> attend(std::span<const Part> parts) {
    for (const auto& source : sources_) source->store(parts);
    return attend_stored(parts);
  }
  std::vector<float> attend_stored(std::span<const Part> parts) {
    Arrays arrays(backend_);
    std::vector<float> q;
    int64_t rows = 0;
    for (const Part& part : parts) {
      append(q_[part.sequence], int64_t{shape_.heads} * shape_.dim, part, q);
      rows += part.rows;
    }
    std::vector<std::vector<AttentionSlice>> slices;
    std::vector<RowSource> sources;
    for (const auto& source : sources_) slices.push_back(source->slices(parts));
    for (size_t s = 0; s < sources_.size(); ++s) {
      const SourceShape& shape = shape_.sources[s];
      RowSource source{.kv = sources_[s]->view, .slices = slices[s], .window = shape.window};
      if (shape.chosen_max > 0) {
        std::vector<int32_t> chosen;
        for (const Part& part : parts) append(chosen_[part.sequence][s], shape.chosen_max, part, chosen);
        source.chosen = arrays.put(chosen);
        source.chosen_max = shape.chosen_max;
      }
      sources.push_back(source);
    }
    const int64_t width = int64_t{shape_.heads} * shape_.value_dim;
    float* out = arrays.make(rows * width);
    backend_.latent()->attend_rows(params_, sources, arrays.put(q), out);
    return arrays.get(out, rows * width);
  }
  Pages& source(size_t number) { return *sources_[number]; }

 private:
  template <class T>
  static void append(const std::vector<T>& from, int64_t cols, const Part& part, std::vector<T>& to) {
    const auto rows = rows_of(from, cols, part.begin, part.rows);
    to.insert(to.end(), rows.begin(), rows.end());
  }
  static std::vector<int32_t> choose(const SourceShape& source, int32_t tokens, Random& random) {
    std::vector<int32_t> chosen(static_cast<size_t>(tokens) * source.chosen_max, -1'000'000);
    for (int32_t position = 0; position < tokens && source.chosen_max > 0; ++position) {
      const int32_t seen = kv_rows(position + 1, source.tokens_per_row);
      std::set<int32_t> rows;
      while (static_cast<int32_t>(rows.size()) < std::min(seen, source.chosen_max)) {
        rows.insert(random.integer(0, seen - 1));
      }
      std::ranges::copy(rows, chosen.begin() + int64_t{position} * source.chosen_max);
    }
    return chosen;
  }

  Backend& backend_;
  const Shape shape_;
  Arrays memory_;
  RowAttentionParams params_;
  std::vector<std::unique_ptr<Pages>> sources_;
  std::vector<std::vector<float>> q_;
  std::vector<std::vector<std::vector<int32_t>>> chosen_;  // [sequence][source]
};

// Maximum rows of a step of a long prompt.
constexpr int32_t kStep = kEmulated ? 50 : 200;

const Shape kShapes[] = {
    {},
    {.heads = 1, .dim = 20, .value_dim = 20},
    {.heads = 4, .dim = 576, .value_dim = 512, .sources = {{.type = KvType::kF16}}},
    // More than one tile, and more heads than a split call has.
    {.heads = 45, .dim = 24, .value_dim = 16, .sinks = true},
    {.dim = 33, .value_dim = 9, .sources = {{.type = KvType::kF16}}},
    {.dim = 80, .value_dim = 64, .sources = {{.type = KvType::kQ8_0, .window = 40}}},
    {.heads = 9, .dim = 72, .value_dim = 72, .sources = {{.type = KvType::kQ8_0}}},
    {.sinks = true, .sources = {{.window = 33}, {.tokens_per_row = 4}}},
    {.sources = {{.type = KvType::kF16, .window = 100}, {.type = KvType::kQ8_0, .tokens_per_row = 32}}},
    {.sources = {{.window = 1}, {.tokens_per_row = 128}}},
    {.sources = {{.chosen_max = 40}}},
    {.sinks = true, .sources = {{.window = 70}, {.type = KvType::kF16, .tokens_per_row = 4, .chosen_max = 7}}},
    {.dim = 33, .value_dim = 9, .sources = {{.type = KvType::kBF16}}},
    {.sources = {{.type = KvType::kBF16, .window = 100},
                 {.type = KvType::kBF16, .tokens_per_row = 4, .chosen_max = 7}}},
};

class GpuLatent : public GpuTest {
 protected:
  /// Queries and weights are rounded as the rows are, to 11 bits or to 8, unless a source is float32.
  static double bound(const Shape& shape) {
    const auto all = [&](KvType type) {
      return std::ranges::all_of(shape.sources, [&](const SourceShape& source) { return source.type == type; });
    };
    if (all(KvType::kF32)) return 1e-5;
    return all(KvType::kBF16) ? 1.6e-2 : 2e-3;
  }
};

TEST_F(GpuLatent, AttentionAgreesWithTheCpu) {
  uint32_t seed = 0;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed);
    const std::vector<int32_t> lengths = {1, 3, 33, kStep, 3 * kStep + 100};
    Lab on_gpu(gpu(), shape, lengths, seed), on_cpu(cpu(), shape, lengths, seed);
    ++seed;
    // All prompts in steps of a ragged batch, then single rows.
    const std::vector<std::vector<Part>> steps = {
        {{0, 0, 1}, {1, 0, 3}, {2, 0, 9}, {3, 0, 33}, {4, 0, kStep}},
        {{2, 9, 23}, {4, kStep, kStep}, {3, 33, 8}},
        {{4, 2 * kStep, kStep + 50}, {3, 41, 6}},
        {{2, 32, 1}, {4, 3 * kStep + 50, 49}, {3, 47, kStep - 48}},
        {{4, 3 * kStep + 99, 1}, {3, kStep - 1, 1}},
    };
    for (const auto& parts : steps) {
      const std::vector<float> a = on_gpu.attend(parts), b = on_cpu.attend(parts);
      EXPECT_LE(difference(a, b), bound(shape)) << "from position " << parts[0].begin;
    }
  }
}

TEST_F(GpuLatent, CallsWithMoreRowsThanARunAgreeWithTheCpu) {
  const Shape shape{.heads = 2, .sinks = true, .sources = {{.window = 20}, {.tokens_per_row = 4, .chosen_max = 9}}};
  constexpr int32_t kMany = kEmulated ? 150 : 300;
  Lab on_gpu(gpu(), shape, {5, kMany, 30}, 40), on_cpu(cpu(), shape, {5, kMany, 30}, 40);
  const Part parts[] = {{0, 0, 5}, {1, 0, kMany}, {2, 0, 30}};
  EXPECT_LE(difference(on_gpu.attend(parts), on_cpu.attend(parts)), 1e-5);
}

// A model without latent rows, such as a draft model, may be on the same GPU with larger steps, whichever was loaded
// first.
TEST_F(GpuLatent, ModelsMayShareTheBackend) {
  const Shape shape{.heads = 2, .sources = {{.window = 20}, {.tokens_per_row = 4, .chosen_max = 9}}};
  constexpr int32_t kMany = 300;
  WorkspaceSizes of_another;
  of_another.attention_rows = 5'000;
  of_another.attention_heads = 1;
  of_another.head_dim = 8;
  of_another.attention_tokens = 5'000;
  Lab on_cpu(cpu(), shape, {kMany}, 41);
  const Part all{0, 0, kMany};
  const std::vector<float> expected = on_cpu.attend({&all, 1});
  for (const bool before : {false, true}) {
    const auto backend = make_cuda_backend({}).value();
    for (const WorkspaceSizes& sizes : {before ? of_another : sizes_of_tests(), before ? sizes_of_tests() : of_another})
      ASSERT_TRUE(backend->reserve(sizes).has_value());
    Lab on_gpu(*backend, shape, {kMany}, 41);
    EXPECT_LE(difference(on_gpu.attend({&all, 1}), expected), 1e-5) << before;
  }
}

// Several chunks: for a single row different blocks compute them, for many rows one block goes through all.
TEST_F(GpuLatent, LongContextsAgreeWithTheCpu) {
  constexpr int32_t kLong = kEmulated ? 700 : 8'000, kLast = 3;
  const Shape shape{.heads = kEmulated ? 3 : 16,
                    .dim = 24,
                    .value_dim = 16,
                    .sinks = true,
                    .sources = {{}, {.type = KvType::kF16, .tokens_per_row = 4}}};
  Lab on_gpu(gpu(), shape, {kLong}, 50), on_cpu(cpu(), shape, {kLong}, 50);
  const Part all{0, 0, kLong}, last{0, kLong - kLast, kLast};
  for (Lab* lab : {&on_gpu, &on_cpu}) {
    for (size_t s = 0; s < 2; ++s) lab->source(s).store({&all, 1});
  }
  EXPECT_LE(difference(on_gpu.attend_stored({&last, 1}), on_cpu.attend_stored({&last, 1})), 1e-4);
}

TEST_F(GpuLatent, ARowDoesNotDependOnItsNeighboursOrOnChunks) {
  uint32_t seed = 100;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 100);
    constexpr auto kLengths = three_lengths(kEmulated ? 200 : 500, kEmulated ? 100 : 300);
    const auto make = [&] { return Lab(gpu(), shape, {kLengths.begin(), kLengths.end()}, seed); };
    expect_same_rows(make, kLengths, int64_t{shape.heads} * shape.value_dim);
    ++seed;
  }
}

TEST_F(GpuLatent, PagesBeforeTheWindowAreNotRead) {
  constexpr int32_t kTokens = 150, kWindow = 40;
  const Shape shape{.sources = {{.type = KvType::kQ8_0, .window = kWindow}}};
  Lab lab(gpu(), shape, {kTokens}, 60);
  for (int32_t at = 0; at < kTokens; at += kTokens / 3) {
    const Part part{0, at, kTokens / 3};
    lab.source(0).store({&part, 1});
  }
  const Part last{0, kTokens - 1, 1};
  const std::vector<float> before = lab.attend_stored({&last, 1});
  lab.source(0).forget_before(0, kTokens - kWindow);
  EXPECT_TRUE(cpu::same_bits(before, lab.attend_stored({&last, 1})));
}

TEST_F(GpuLatent, PreviousRowsAreZerosBeforeTheFirstPosition) {
  constexpr int32_t kDim = 50, kMany = kEmulated ? 150 : 300;
  Random random(3);
  const std::vector<int32_t> lengths = {kMany, 70};
  Pages pages(gpu(), {}, kDim, lengths, random);
  const Part all[] = {{0, 0, kMany}, {1, 0, 70}};
  pages.store(all);
  // Parts from the start over the end of a page, from the middle, of a single position, and with more rows than a run
  // has.
  const Part parts[] = {{1, 0, 40}, {1, 33, 3}, {1, 64, 1}, {0, 0, kMany}};
  Arrays arrays(gpu());
  int64_t row = 0;
  for (const Part& part : parts) row += part.rows;
  float* there = arrays.make(row * kDim);
  gpu().latent()->load_previous_rows(pages.view, pages.slices(parts), there);
  const std::vector<float> out = arrays.get(there, row * kDim);
  row = 0;
  for (const Part& part : parts) {
    for (int32_t position = part.begin; position < part.begin + part.rows; ++position, ++row) {
      for (int32_t d = 0; d < kDim; ++d) {
        const float expected = position == 0 ? 0 : pages.rows(part.sequence)[(position - 1) * kDim + d];
        ASSERT_EQ(out[row * kDim + d], expected) << position << " " << d;
      }
    }
  }
}

struct ChoiceShape {
  int32_t heads = 4;
  int32_t dim = 64;
  int32_t most = 8;
  KvType type = KvType::kF32;
  int32_t tokens_per_row = 1;
  bool ties = false;  // all numbers are small integers: sums are exact, and many are equal
};

/// Sequences with their index queries.
class Chooser {
 public:
  Chooser(Backend& backend, const ChoiceShape& shape, const std::vector<int32_t>& lengths, uint32_t seed)
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

  std::vector<int32_t> choose(std::span<const Part> parts) {
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
    backend_.latent()->select_topk({.heads = shape_.heads, .most = shape_.most}, pages_.view, pages_.slices(parts),
                                   arrays.put(q), arrays.put(weights), chosen);
    return arrays.get(chosen, rows * shape_.most);
  }

  /// The sums of all rows that a position sees; exact with `ties`.
  std::vector<double> scores(size_t sequence, int32_t position) {
    std::vector<double> scores;
    for (int32_t row = 0; row < kv_rows(position + 1, shape_.tokens_per_row); ++row) {
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
  Backend& backend_;
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

TEST_F(GpuLatent, ChoosesTheLargestSums) {
  const ChoiceShape shapes[] = {
      {.heads = 64, .dim = 128, .most = 20},
      {.heads = 3, .dim = 5, .most = 1, .type = KvType::kF16},
      {.heads = 33, .dim = 40, .most = 33, .type = KvType::kQ8_0},
      {.heads = 5, .dim = 24, .most = 9, .type = KvType::kBF16},
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

TEST_F(GpuLatent, OfEqualSumsTheFirstIsSelected) {
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

TEST_F(GpuLatent, ASelectionDoesNotDependOnItsNeighbours) {
  constexpr int32_t kTokens = 150;
  const ChoiceShape shape{.heads = 33, .dim = 8, .most = 30, .type = KvType::kF16};
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
TEST_F(GpuLatent, SelectsFromMoreScoresThanAreHeldAtOnce) {
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

TEST_F(GpuLatent, RowsThatAreTooLargeAreRefused) {
  WorkspaceSizes sizes = sizes_of_tests();
  sizes.latent.row_dim = 1'024;
  EXPECT_EQ(gpu().reserve(sizes).error().code, Code::kUnsupported);
  sizes = sizes_of_tests();
  sizes.latent.choose_dim = 1'024;
  EXPECT_EQ(gpu().reserve(sizes).error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace cairn::gpu
