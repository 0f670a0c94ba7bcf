// Compares attention over whole rows on the GPU with the CPU: every type of rows, windows, sinks, compressed rows, two
// sources, selected rows; and sequences alone with the same among others, however they were cut. indexer_test.cpp has
// the selection.
#include <set>

#include "gpu/latent_pages.h"
#include "kernels/cuda/cuda_backend.h"

namespace cairn::gpu {
namespace {

struct LatentShape {
  int32_t heads = 5;
  int32_t dim = 48;
  int32_t value_dim = 32;
  bool sinks = false;
  std::vector<SourceShape> sources = {{}};
};

class LatentLab {
 public:
  LatentLab(kernels::Backend& backend, const LatentShape& shape, std::vector<int32_t> lengths, uint32_t seed)
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
    std::vector<std::vector<kernels::AttentionSlice>> slices;
    std::vector<kernels::RowSource> sources;
    for (const auto& source : sources_) slices.push_back(source->slices(parts));
    for (size_t s = 0; s < sources_.size(); ++s) {
      const SourceShape& shape = shape_.sources[s];
      kernels::RowSource source{.kv = sources_[s]->view, .slices = slices[s], .window = shape.window};
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
    backend_.mla()->attend_rows(params_, sources, arrays.put(q), out);
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
      const int32_t seen = kernels::kv_rows(position + 1, source.tokens_per_row);
      std::set<int32_t> rows;
      while (static_cast<int32_t>(rows.size()) < std::min(seen, source.chosen_max)) {
        rows.insert(random.integer(0, seen - 1));
      }
      std::ranges::copy(rows, chosen.begin() + int64_t{position} * source.chosen_max);
    }
    return chosen;
  }

  kernels::Backend& backend_;
  const LatentShape shape_;
  Arrays memory_;
  kernels::RowAttentionParams params_;
  std::vector<std::unique_ptr<Pages>> sources_;
  std::vector<std::vector<float>> q_;
  std::vector<std::vector<std::vector<int32_t>>> chosen_;  // [sequence][source]
};

// Maximum rows of a step of a long prompt.
constexpr int32_t kLatentStep = kEmulated ? 50 : 200;

const LatentShape kLatentShapes[] = {
    {},
    {.heads = 1, .dim = 20, .value_dim = 20},
    {.heads = 4, .dim = 576, .value_dim = 512, .sources = {{.type = kernels::KvType::kF16}}},
    // More than one tile, and more heads than a split call has.
    {.heads = 45, .dim = 24, .value_dim = 16, .sinks = true},
    {.dim = 33, .value_dim = 9, .sources = {{.type = kernels::KvType::kF16}}},
    {.dim = 80, .value_dim = 64, .sources = {{.type = kernels::KvType::kQ8_0, .window = 40}}},
    {.heads = 9, .dim = 72, .value_dim = 72, .sources = {{.type = kernels::KvType::kQ8_0}}},
    {.sinks = true, .sources = {{.window = 33}, {.tokens_per_row = 4}}},
    {.sources = {{.type = kernels::KvType::kF16, .window = 100},
                 {.type = kernels::KvType::kQ8_0, .tokens_per_row = 32}}},
    {.sources = {{.window = 1}, {.tokens_per_row = 128}}},
    {.sources = {{.chosen_max = 40}}},
    {.sinks = true, .sources = {{.window = 70}, {.type = kernels::KvType::kF16, .tokens_per_row = 4, .chosen_max = 7}}},
    {.dim = 33, .value_dim = 9, .sources = {{.type = kernels::KvType::kBF16}}},
    {.sources = {{.type = kernels::KvType::kBF16, .window = 100},
                 {.type = kernels::KvType::kBF16, .tokens_per_row = 4, .chosen_max = 7}}},
};

class GpuMla : public GpuTest {
 protected:
  /// Queries and weights are rounded as the rows are, to 11 bits or to 8, unless a source is float32.
  static double bound(const LatentShape& shape) {
    const auto all = [&](kernels::KvType type) {
      return std::ranges::all_of(shape.sources, [&](const SourceShape& source) { return source.type == type; });
    };
    if (all(kernels::KvType::kF32)) return 1e-5;
    return all(kernels::KvType::kBF16) ? 1.6e-2 : 2e-3;
  }
};

TEST_F(GpuMla, AttentionAgreesWithTheCpu) {
  uint32_t seed = 0;
  for (const LatentShape& shape : kLatentShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed);
    const std::vector<int32_t> lengths = {1, 3, 33, kLatentStep, 3 * kLatentStep + 100};
    LatentLab on_gpu(gpu(), shape, lengths, seed), on_cpu(cpu(), shape, lengths, seed);
    ++seed;
    // All prompts in steps of a ragged batch, then single rows.
    const std::vector<std::vector<Part>> steps = {
        {{0, 0, 1}, {1, 0, 3}, {2, 0, 9}, {3, 0, 33}, {4, 0, kLatentStep}},
        {{2, 9, 23}, {4, kLatentStep, kLatentStep}, {3, 33, 8}},
        {{4, 2 * kLatentStep, kLatentStep + 50}, {3, 41, 6}},
        {{2, 32, 1}, {4, 3 * kLatentStep + 50, 49}, {3, 47, kLatentStep - 48}},
        {{4, 3 * kLatentStep + 99, 1}, {3, kLatentStep - 1, 1}},
    };
    for (const auto& parts : steps) {
      const std::vector<float> a = on_gpu.attend(parts), b = on_cpu.attend(parts);
      EXPECT_LE(difference(a, b), bound(shape)) << "from position " << parts[0].begin;
    }
  }
}

TEST_F(GpuMla, CallsWithMoreRowsThanARunAgreeWithTheCpu) {
  const LatentShape shape{
      .heads = 2, .sinks = true, .sources = {{.window = 20}, {.tokens_per_row = 4, .chosen_max = 9}}};
  constexpr int32_t kMany = kEmulated ? 150 : 300;
  LatentLab on_gpu(gpu(), shape, {5, kMany, 30}, 40), on_cpu(cpu(), shape, {5, kMany, 30}, 40);
  const Part parts[] = {{0, 0, 5}, {1, 0, kMany}, {2, 0, 30}};
  EXPECT_LE(difference(on_gpu.attend(parts), on_cpu.attend(parts)), 1e-5);
}

// A model without latent rows, such as a draft model, may be on the same GPU with larger steps, whichever was loaded
// first.
TEST_F(GpuMla, ModelsMayShareTheBackend) {
  const LatentShape shape{.heads = 2, .sources = {{.window = 20}, {.tokens_per_row = 4, .chosen_max = 9}}};
  constexpr int32_t kMany = 300;
  kernels::WorkspaceSizes of_another;
  of_another.attention_rows = 5'000;
  of_another.attention_heads = 1;
  of_another.head_dim = 8;
  of_another.attention_tokens = 5'000;
  LatentLab on_cpu(cpu(), shape, {kMany}, 41);
  const Part all{0, 0, kMany};
  const std::vector<float> expected = on_cpu.attend({&all, 1});
  for (const bool before : {false, true}) {
    const auto backend = kernels::make_cuda_backend({}).value();
    for (const kernels::WorkspaceSizes& sizes :
         {before ? of_another : sizes_of_tests(), before ? sizes_of_tests() : of_another})
      ASSERT_TRUE(backend->reserve(sizes).has_value());
    LatentLab on_gpu(*backend, shape, {kMany}, 41);
    EXPECT_LE(difference(on_gpu.attend({&all, 1}), expected), 1e-5) << before;
  }
}

// Several chunks: for a single row different blocks compute them, for many rows one block goes through all.
TEST_F(GpuMla, LongContextsAgreeWithTheCpu) {
  constexpr int32_t kLong = kEmulated ? 700 : 8'000, kLast = 3;
  const LatentShape shape{.heads = kEmulated ? 3 : 16,
                          .dim = 24,
                          .value_dim = 16,
                          .sinks = true,
                          .sources = {{}, {.type = kernels::KvType::kF16, .tokens_per_row = 4}}};
  LatentLab on_gpu(gpu(), shape, {kLong}, 50), on_cpu(cpu(), shape, {kLong}, 50);
  const Part all{0, 0, kLong}, last{0, kLong - kLast, kLast};
  for (LatentLab* lab : {&on_gpu, &on_cpu}) {
    for (size_t s = 0; s < 2; ++s) lab->source(s).store({&all, 1});
  }
  EXPECT_LE(difference(on_gpu.attend_stored({&last, 1}), on_cpu.attend_stored({&last, 1})), 1e-4);
}

TEST_F(GpuMla, ARowDoesNotDependOnItsNeighboursOrOnChunks) {
  uint32_t seed = 100;
  for (const LatentShape& shape : kLatentShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 100);
    constexpr auto kLengths = three_lengths(kEmulated ? 200 : 500, kEmulated ? 100 : 300);
    const auto make = [&] { return LatentLab(gpu(), shape, {kLengths.begin(), kLengths.end()}, seed); };
    expect_same_rows(make, kLengths, int64_t{shape.heads} * shape.value_dim);
    ++seed;
  }
}

TEST_F(GpuMla, PagesBeforeTheWindowAreNotRead) {
  constexpr int32_t kTokens = 150, kWindow = 40;
  const LatentShape shape{.sources = {{.type = kernels::KvType::kQ8_0, .window = kWindow}}};
  LatentLab lab(gpu(), shape, {kTokens}, 60);
  for (int32_t at = 0; at < kTokens; at += kTokens / 3) {
    const Part part{0, at, kTokens / 3};
    lab.source(0).store({&part, 1});
  }
  const Part last{0, kTokens - 1, 1};
  const std::vector<float> before = lab.attend_stored({&last, 1});
  lab.source(0).forget_before(0, kTokens - kWindow);
  EXPECT_TRUE(kernels::cpu::same_bits(before, lab.attend_stored({&last, 1})));
}

TEST_F(GpuMla, PreviousRowsAreZerosBeforeTheFirstPosition) {
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
  gpu().mla()->load_previous_rows(pages.view, pages.slices(parts), there);
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

TEST_F(GpuMla, RowsThatAreTooLargeAreRefused) {
  kernels::WorkspaceSizes sizes = sizes_of_tests();
  sizes.mla.row_dim = 1'024;
  EXPECT_EQ(gpu().reserve(sizes).error().code, Code::kUnsupported);
  sizes = sizes_of_tests();
  sizes.mla.choose_dim = 1'024;
  EXPECT_EQ(gpu().reserve(sizes).error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace cairn::gpu
