#include "kernels/cpu/attention/attention_op.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/test_support.h"
#include "quant/float_formats.h"

namespace cairn::kernels::cpu {
namespace {

static_assert(kv_row_bytes(KvType::kF32, 20) == 80 && kv_row_bytes(KvType::kF16, 20) == 40);
static_assert(kv_row_bytes(KvType::kBF16, 20) == 40);
static_assert(kv_row_bytes(KvType::kQ8_0, 64) == 68 && kv_row_bytes(KvType::kQ8_0, 20) == 34);
static_assert(kv_row_bytes(KvType::kI16, 64) == 132 && kv_row_bytes(KvType::kI16, 7) == 20);

struct Shape {
  int32_t kv_heads = 2;
  int32_t group = 3;
  int32_t key_dim = 64;
  int32_t value_dim = 64;
  KvType type = KvType::kF32;
  float scale = 0.125f;
  float soft_cap = 0;
  int32_t window = 0;
  bool chunked = false;
  bool sinks = false;
  bool causal = true;
  bool slopes = false;
};

// One sequence: its queries, keys and values for every position, and pages in random order among unrelated data.
class Sequence {
 public:
  Sequence(Backend& backend, const Shape& shape, int32_t tokens, Random& random)
      : backend_(backend), shape_(shape), tokens_(tokens) {
    const int32_t heads = shape.kv_heads * shape.group;
    q = random.normals(int64_t{tokens} * heads * shape.key_dim);
    k = random.normals(int64_t{tokens} * shape.kv_heads * shape.key_dim);
    v = random.normals(int64_t{tokens} * shape.kv_heads * shape.value_dim);
    for (int32_t i = 0; i < heads; ++i) sinks_.push_back(random.normal(2));
    for (int32_t i = 0; i < heads; ++i) slopes_.push_back(std::exp2(-8.0f * static_cast<float>(i + 1) / 12));
    const int32_t used = (tokens + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> order(static_cast<size_t>(used) + 3);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[random.integer(0, static_cast<int32_t>(i))]);
    for (int32_t i = 0; i < used; ++i) pages.push_back(PageId{order[i]});
    view.type = shape.type;
    view.kv_heads = shape.kv_heads;
    view.key_dim = shape.key_dim;
    view.value_dim = shape.value_dim;
    const int64_t layer = int64_t{kPageTokens} * shape.kv_heads *
                          (kv_row_bytes(shape.type, shape.key_dim) + kv_row_bytes(shape.type, shape.value_dim));
    view.layer_offset = 128;
    view.page_stride = layer + 192;
    memory_ = backend.allocate(view.page_stride * static_cast<int64_t>(order.size() + 1)).value();
    // Memory that is not written yet is NaN in all types, as is the place where page -1 would be, so that reading it is
    // noticed.
    std::fill_n(static_cast<uint8_t*>(memory_.data()), memory_.bytes(), uint8_t{0xff});
    view.base = static_cast<std::byte*>(memory_.data()) + view.page_stride;
    round_rows(shape.type, shape.key_dim, k);
    round_rows(shape.type, shape.value_dim, v);
  }

  AttentionParams params() const {
    return {.heads = shape_.kv_heads * shape_.group,
            .scale = shape_.scale,
            .soft_cap = shape_.soft_cap,
            .window = shape_.window,
            .chunked = shape_.chunked,
            .sinks = shape_.sinks ? sinks_.data() : nullptr,
            .causal = shape_.causal,
            .slopes = shape_.slopes ? slopes_.data() : nullptr};
  }

  // Stores rows [begin, end) as one slice, then attends to them.
  std::vector<float> attend(int32_t begin, int32_t end) {
    const AttentionSlice slice{0, end - begin, begin, pages};
    std::vector<float> out(static_cast<size_t>(end - begin) * out_cols());
    backend_.store_kv(view, {&slice, 1}, k.data() + int64_t{begin} * shape_.kv_heads * shape_.key_dim,
                      v.data() + int64_t{begin} * shape_.kv_heads * shape_.value_dim);
    backend_.attention(params(), view, {&slice, 1}, q.data() + int64_t{begin} * q_cols(), out.data());
    return out;
  }

  // The attention of one row, in double precision.
  std::vector<double> truth(int32_t position) const {
    std::vector<double> out;
    for (int32_t head = 0; head < shape_.kv_heads * shape_.group; ++head) {
      const int32_t kv_head = head / shape_.group;
      const float* query = q.data() + (int64_t{position} * shape_.kv_heads * shape_.group + head) * shape_.key_dim;
      const int32_t before = shape_.causal ? shape_.window - 1 : shape_.window / 2;
      int32_t first = shape_.window > 0 ? std::max(0, position - before) : 0;
      while (shape_.chunked && first % shape_.window != 0) ++first;
      const int32_t end = shape_.causal ? position + 1 : tokens_;
      const int32_t last = (shape_.window > 0 ? std::min(end, position + shape_.window / 2 + 1) : end) - 1;
      std::vector<double> scores;
      for (int32_t t = first; t <= last; ++t) {
        const float* key = k.data() + (int64_t{t} * shape_.kv_heads + kv_head) * shape_.key_dim;
        double score = 0;
        for (int32_t d = 0; d < shape_.key_dim; ++d) score += double{query[d]} * key[d];
        score *= shape_.scale;
        if (shape_.soft_cap > 0) score = shape_.soft_cap * std::tanh(score / shape_.soft_cap);
        if (shape_.slopes) score -= double{slopes_[head]} * std::abs(position - t);
        scores.push_back(score);
      }
      const double largest = *std::ranges::max_element(scores);
      double sum = shape_.sinks ? std::exp(sinks_[head] - largest) : 0;
      for (double& score : scores) sum += score = std::exp(score - largest);
      for (int32_t d = 0; d < shape_.value_dim; ++d) {
        double value = 0;
        for (int32_t t = first; t <= last; ++t)
          value += scores[t - first] * v[(int64_t{t} * shape_.kv_heads + kv_head) * shape_.value_dim + d];
        out.push_back(value / sum);
      }
    }
    return out;
  }

  int64_t q_cols() const { return int64_t{shape_.kv_heads} * shape_.group * shape_.key_dim; }
  int64_t out_cols() const { return int64_t{shape_.kv_heads} * shape_.group * shape_.value_dim; }

  std::vector<float> q, k, v;
  std::vector<PageId> pages;
  KvView view;

 private:
  Backend& backend_;
  Shape shape_;
  int32_t tokens_;
  std::vector<float> sinks_;
  std::vector<float> slopes_;
  Buffer memory_;
};

class Attention : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, Attention, ::testing::ValuesIn(isas_under_test()), isa_test_name);

constexpr int32_t kKvTypes = static_cast<int32_t>(KvType::kBF16) + 1;

// Type number `number` of those that the instruction set has.
KvType kv_type(const Isa& isa, int32_t number) {
  const auto type = static_cast<KvType>(number % kKvTypes);
  const bool pairs = type == KvType::kI16 || type == KvType::kQ8_0Pairs;
  return pairs && isa.attention->int16 == nullptr ? KvType::kF32 : type;
}

// A random shape; `dims`: how many of the head dimensions to choose from.
Shape random_shape(const Isa& isa, Random& random, int32_t dims = 10) {
  constexpr int32_t kDims[] = {8, 16, 20, 24, 32, 40, 64, 80, 96, 128};
  Shape shape;
  shape.kv_heads = random.integer(1, 3);
  shape.group = random.integer(1, 9);
  shape.key_dim = kDims[random.integer(0, dims - 1)];
  shape.value_dim = kDims[random.integer(0, dims - 1)];
  shape.type = kv_type(isa, random.integer(0, kKvTypes - 1));
  shape.scale = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  shape.soft_cap = random.integer(0, 2) == 0 ? 2.0f : 0;
  shape.window = random.integer(0, 2) == 0 ? random.integer(1, 700) : 0;
  shape.chunked = shape.window > 0 && random.integer(0, 1) == 0;
  shape.sinks = random.integer(0, 2) == 0;
  return shape;
}

TEST_P(Attention, AgreesWithDoublePrecision) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const auto backend = make_backend(GetParam(), 1);
    const Shape shape = random_shape(GetParam(), random);
    const int32_t tokens = random.integer(1, seed % 4 == 0 ? 1200 : 150);
    // The truth is made of unrounded numbers for kI16, and its rounding is allowed for; with pairs, queries and weights
    // are rounded as well.
    const bool rounds = shape.type == KvType::kI16 || shape.type == KvType::kQ8_0Pairs;
    Sequence sequence(*backend, shape, tokens, random);
    const std::vector<float> out = sequence.attend(0, tokens);
    double error = 0, power = 0;
    for (int32_t row = 0; row < tokens; row += 1 + tokens / 20) {
      const std::vector<double> truth = sequence.truth(row);
      for (int64_t c = 0; c < sequence.out_cols(); ++c) {
        const double difference = out[row * sequence.out_cols() + c] - truth[c];
        ASSERT_LT(std::abs(difference), rounds ? 3e-3 : 1e-5) << "row " << row << " column " << c;
        error += difference * difference;
        power += truth[c] * truth[c];
      }
    }
    EXPECT_LT(error, (rounds ? 1.6e-7 : 1e-12) * power);
  }
}

TEST_P(Attention, AttentionWithoutAMaskAndWithAlibiAgreesWithDoublePrecision) {
  for (const bool causal : {false, true}) {
    for (const int32_t tokens : {1, 31, 33, 150, 1100}) {
      Random random(static_cast<uint32_t>(tokens));
      SCOPED_TRACE(random.trace());
      const auto backend = make_backend(GetParam(), 2);
      const Shape shape{.group = 2, .key_dim = 32, .value_dim = 32, .causal = causal, .slopes = tokens != 150};
      Sequence sequence(*backend, shape, tokens, random);
      const std::vector<float> out = sequence.attend(0, tokens);
      for (int32_t row = 0; row < tokens; row += 1 + tokens / 20) {
        const std::vector<double> truth = sequence.truth(row);
        for (int64_t c = 0; c < sequence.out_cols(); ++c) {
          ASSERT_NEAR(out[row * sequence.out_cols() + c], truth[c], 1e-5) << "row " << row << " column " << c;
        }
      }
    }
  }
}

// Every row sees as much on both sides; windows and texts end within segments, at their ends and beyond.
TEST_P(Attention, SymmetricWindowsAgreeWithDoublePrecision) {
  for (const int32_t window : {1, 2, 15, 16, 128, 1030}) {
    for (const int32_t tokens : {1, 9, 33, 150, 520, 1100}) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", " << tokens << " tokens");
      std::vector<std::vector<float>> results;
      for (const int threads : {1, 2}) {
        const auto backend = make_backend(GetParam(), threads);
        Random same(static_cast<uint32_t>(window));
        const Shape shape{.group = 2, .key_dim = 32, .value_dim = 24, .window = window, .causal = false};
        Sequence sequence(*backend, shape, tokens, same);
        results.push_back(sequence.attend(0, tokens));
        if (threads > 1) continue;
        for (int32_t row = 0; row < tokens; row += 1 + tokens / 20) {
          const std::vector<double> truth = sequence.truth(row);
          for (int64_t c = 0; c < sequence.out_cols(); ++c) {
            ASSERT_NEAR(results[0][row * sequence.out_cols() + c], truth[c], 1e-5) << "row " << row << " column " << c;
          }
        }
      }
      EXPECT_TRUE(same_bits(results[0], results[1]));
    }
  }
}

TEST_P(Attention, ARowDoesNotDependOnChunksOrThreads) {
  for (uint32_t seed = 100; seed < 108; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    Shape shape = random_shape(GetParam(), random, 5);
    shape.type = kv_type(GetParam(), static_cast<int32_t>(seed));
    const int32_t tokens = seed % 3 == 0 ? 1040 : 150;
    const auto first = make_backend(GetParam(), 1);
    Sequence sequence(*first, shape, tokens, random);
    const std::vector<float> whole = sequence.attend(0, tokens);
    for (const int threads : {1, 2, 3}) {
      const auto backend = make_backend(GetParam(), threads);
      Random same(seed);
      random_shape(GetParam(), same, 5);
      Sequence again(*backend, shape, tokens, same);
      std::vector<float> pieces;
      // Slices from long chunks down to single rows, as in prefill and decode.
      for (int32_t begin = 0; begin < tokens;) {
        const int32_t end = std::min(tokens, begin + (begin > tokens - 20 ? 1 : random.integer(1, 300)));
        const std::vector<float> part = again.attend(begin, end);
        pieces.insert(pieces.end(), part.begin(), part.end());
        begin = end;
      }
      EXPECT_TRUE(same_bits(whole, pieces)) << threads << " threads";
    }
  }
}

TEST_P(Attention, ARowDoesNotDependOnOtherSequences) {
  Random random(7);
  SCOPED_TRACE(random.trace());
  for (const int threads : {1, 2, 3}) {
    const auto backend = make_backend(GetParam(), threads);
    const Shape shape{.kv_heads = 2, .group = 2, .key_dim = 20, .value_dim = 24, .window = 550};
    constexpr int32_t kTokens[] = {1040, 40, 600, 1};
    // Four sequences in one memory, with their pages interleaved.
    std::vector<Sequence> sequences;
    std::vector<std::vector<float>> alone;
    for (const int32_t tokens : kTokens) {
      sequences.emplace_back(*backend, shape, tokens, random);
      alone.push_back(sequences.back().attend(0, tokens));
    }
    KvView together = sequences[0].view;
    int64_t pages = 0;
    for (const auto& sequence : sequences) pages += static_cast<int64_t>(sequence.pages.size());
    const Buffer memory = backend->allocate(pages * together.page_stride).value();
    together.base = static_cast<std::byte*>(memory.data());
    std::vector<std::vector<PageId>> tables(4);
    int32_t next = 0;
    for (size_t at = 0; next < pages; ++at) {
      const size_t s = at % 4;
      if (tables[s].size() < sequences[s].pages.size()) tables[s].push_back(PageId{next++});
    }
    std::vector<AttentionSlice> slices;
    std::vector<float> q, k, v;
    int32_t row = 0;
    for (const size_t s : {2, 0, 3, 1}) {
      slices.push_back({row, kTokens[s], 0, tables[s]});
      row += kTokens[s];
      q.insert(q.end(), sequences[s].q.begin(), sequences[s].q.end());
      k.insert(k.end(), sequences[s].k.begin(), sequences[s].k.end());
      v.insert(v.end(), sequences[s].v.begin(), sequences[s].v.end());
    }
    const int64_t cols = sequences[0].out_cols();
    std::vector<float> out(static_cast<size_t>(row * cols));
    backend->store_kv(together, slices, k.data(), v.data());
    backend->attention(sequences[0].params(), together, slices, q.data(), out.data());
    for (size_t i = 0; i < 4; ++i) {
      const size_t s = std::vector<size_t>{2, 0, 3, 1}[i];
      const std::span<const float> part(out.data() + slices[i].row_begin * cols, alone[s].size());
      EXPECT_TRUE(same_bits(alone[s], part)) << "sequence " << s << ", " << threads << " threads";
    }
  }
}

TEST_P(Attention, SplittingTheLongContextOfOneRowDoesNotChangeItsResult) {
  Random random(8);
  SCOPED_TRACE(random.trace());
  const Shape shape{.kv_heads = 1, .group = 2, .key_dim = 16, .value_dim = 16, .sinks = true};
  constexpr int32_t kTokens = 9000;
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4}) {
    const auto backend = make_backend(GetParam(), threads);
    Random same(8);
    Sequence sequence(*backend, shape, kTokens, same);
    const AttentionSlice all{0, kTokens, 0, sequence.pages};
    backend->store_kv(sequence.view, {&all, 1}, sequence.k.data(), sequence.v.data());
    results.push_back(sequence.attend(kTokens - 1, kTokens));
    const std::vector<double> truth = sequence.truth(kTokens - 1);
    for (size_t c = 0; c < truth.size(); ++c) EXPECT_NEAR(results.back()[c], truth[c], 1e-6);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], results[2]));
}

TEST_P(Attention, PagesBeforeTheWindowAreNotRead) {
  constexpr int32_t kTokens = 700;
  Random random(9);
  SCOPED_TRACE(random.trace());
  for (int32_t number = 0; number < kKvTypes; ++number) {
    const KvType type = kv_type(GetParam(), number);
    for (const auto& [window, chunked] :
         {std::pair{1, false}, {32, false}, {33, false}, {40, false}, {550, false}, {33, true}, {350, true}}) {
      SCOPED_TRACE(window);
      const auto backend = make_backend(GetParam(), 2);
      const Shape shape{.key_dim = 20, .value_dim = 40, .type = type, .window = window, .chunked = chunked};
      Sequence sequence(*backend, shape, kTokens, random);
      const std::vector<float> before = sequence.attend(0, kTokens);
      // Pages that no later row reads are freed as a stream goes on: first a chunk is computed, then row by row.
      for (int32_t begin = kTokens - 70; begin < kTokens;) {
        const int32_t end = begin == kTokens - 70 ? begin + 40 : begin + 1;
        for (int32_t page = 0; page < std::max(0, begin - window + 1) / kPageTokens; ++page)
          sequence.pages[static_cast<size_t>(page)] = kNoPage;
        const std::vector<float> after = sequence.attend(begin, end);
        EXPECT_TRUE(
            same_bits(after, std::span(before).subspan(begin * static_cast<size_t>(sequence.out_cols()), after.size())))
            << "from row " << begin;
        begin = end;
      }
    }
  }
}

// Compares with unrounded keys and values, which gives the error of the type. Normal numbers in blocks of 32 have a
// maximum of 2 to 3 sigma, so rounding to int8 has an error of about 0.006 sigma. Rounding to bfloat16 has one of 2^-7
// / sqrt(12) / 1.44 = 0.0016 of the number; truncation would have twice that.
TEST_P(Attention, RoundedKvTypesAreNearUnroundedResults) {
  for (const auto& [type, bound] : {std::pair{KvType::kQ8_0, 0.01}, {KvType::kBF16, 0.0025}}) {
    Random random(11);
    SCOPED_TRACE(random.trace());
    constexpr int32_t kTokens = 200;
    const auto backend = make_backend(GetParam(), 1);
    const Shape shape{.key_dim = 72, .value_dim = 48, .type = backend->stored_kv_type(type)};
    Random same(12);
    Sequence exact(*backend, {.key_dim = 72, .value_dim = 48}, kTokens, same);
    Sequence rounded(*backend, shape, kTokens, random);
    rounded.q = exact.q;
    rounded.k = exact.k;
    rounded.v = exact.v;
    const std::vector<float> truth = exact.attend(0, kTokens);
    const std::vector<float> out = rounded.attend(0, kTokens);
    double error = 0, power = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      error += (out[i] - truth[i]) * (out[i] - truth[i]);
      power += truth[i] * truth[i];
    }
    EXPECT_GT(error, 0);
    EXPECT_LT(std::sqrt(error / power), bound);
  }
}

// For numbers of any size, attention sees exactly the rounded numbers.
TEST_P(Attention, Bfloat16EqualsFloat32WithRoundedNumbers) {
  constexpr int32_t kTokens = 700;
  for (const float size : {1e-20f, 1.0f, 1e15f}) {
    SCOPED_TRACE(size);
    const auto backend = make_backend(GetParam(), 2);
    Shape shape{.key_dim = 20, .value_dim = 37, .scale = 0.1f / size};
    Random random(16);
    Sequence exact(*backend, shape, kTokens, random);
    shape.type = KvType::kBF16;
    Sequence rounded(*backend, shape, kTokens, random);
    rounded.q = exact.q;
    for (float& value : exact.k) value *= size;
    for (float& value : exact.v) value *= size;
    rounded.k = exact.k;
    rounded.v = exact.v;
    round_rows(KvType::kBF16, shape.key_dim, exact.k);
    round_rows(KvType::kBF16, shape.value_dim, exact.v);
    EXPECT_TRUE(same_bits(rounded.attend(0, kTokens), exact.attend(0, kTokens)));
  }
}

// Rounding keys and values to int16 costs about as much as rounding them to binary16.
TEST_P(Attention, Int16IsAboutAsPreciseAsBinary16) {
  const auto backend = make_backend(GetParam(), 1);
  if (backend->stored_kv_type(KvType::kF16) != KvType::kI16) GTEST_SKIP() << "products of int16 are not faster here";
  constexpr int32_t kTokens = 1100;
  for (const int32_t dim : {20, 64, 128, 256}) {
    SCOPED_TRACE(dim);
    const auto error_of = [&](KvType type) {
      Random same(13);
      const Shape shape{
          .kv_heads = 1, .key_dim = dim, .value_dim = dim, .scale = 1 / std::sqrt(static_cast<float>(dim))};
      Sequence exact(*backend, shape, kTokens, same);
      Shape rounding = shape;
      rounding.type = type;
      Sequence rounded(*backend, rounding, kTokens, same);
      rounded.q = exact.q;
      rounded.k = exact.k;
      rounded.v = exact.v;
      const std::vector<float> truth = exact.attend(0, kTokens);
      const std::vector<float> out = rounded.attend(0, kTokens);
      double error = 0, power = 0;
      for (size_t i = 0; i < out.size(); ++i) {
        error += (out[i] - truth[i]) * (out[i] - truth[i]);
        power += truth[i] * truth[i];
      }
      return std::sqrt(error / power);
    };
    const double of_int16 = error_of(KvType::kI16);
    std::printf("%s dim %d: int16 %.1e, halves %.1e\n", std::string(GetParam().name).c_str(), dim, of_int16,
                error_of(KvType::kF16));
    EXPECT_LT(of_int16, 4e-4);
    EXPECT_LT(of_int16, 2 * error_of(KvType::kF16));
  }
}

// Rows of one repeated number, and rows with a single number that is not 0: each gives the largest possible sums.
class PairSums : public Attention {
 public:
  // Checks rows filled with `size`, or, with `alone`, rows of zeros after a first `size`.
  static void are_true(Backend& backend, KvType type, int32_t dim, bool alone, float size) {
    SCOPED_TRACE(::testing::Message() << static_cast<int>(type) << " " << dim << " " << alone << " " << size);
    constexpr int32_t kTokens = 512;
    Random random(14);
    const Shape shape{
        .kv_heads = 1, .group = 1, .key_dim = dim, .value_dim = dim, .type = type, .scale = 1e-3f / (size * size)};
    Sequence sequence(backend, shape, kTokens, random);
    for (size_t i = 0; i < sequence.k.size(); ++i) {
      const bool there = !alone || i % static_cast<size_t>(dim) == 0;
      sequence.q[i] = sequence.k[i] = there ? size : 0;
      sequence.v[i] = there ? -size : 0;
    }
    const std::vector<float> out = sequence.attend(0, kTokens);
    for (int64_t row = 0; row < kTokens; row += 73) {
      const std::vector<double> truth = sequence.truth(static_cast<int32_t>(row));
      for (int64_t d = 0; d < dim; ++d) EXPECT_NEAR(out[row * dim + d], truth[d], 1e-3 * size) << row << " " << d;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, PairSums, ::testing::ValuesIn(isas_under_test()), isa_test_name);

TEST_P(PairSums, TheCacheIsStoredAsPairsIfTheInstructionSetHasThem) {
  const auto backend = make_backend(GetParam(), 1);
  const bool there = GetParam().attention->int16 != nullptr;
  EXPECT_EQ(backend->stored_kv_type(KvType::kF16), there ? KvType::kI16 : KvType::kF16);
  EXPECT_EQ(backend->stored_kv_type(KvType::kQ8_0), there ? KvType::kQ8_0Pairs : KvType::kQ8_0);
  EXPECT_EQ(backend->stored_kv_type(KvType::kF32), KvType::kF32);
  EXPECT_EQ(backend->stored_kv_type(KvType::kBF16), KvType::kBF16) << "int16 has not its range";
}

TEST_P(PairSums, TheLargestSumsDoNotOverflow) {
  const auto backend = make_backend(GetParam(), 1);
  if (backend->stored_kv_type(KvType::kF16) != KvType::kI16) GTEST_SKIP() << "products of int16 are not faster here";
  for (const int32_t dim : {1, 7, 64, 576}) {
    for (const bool alone : {false, true}) {
      for (const float size : {1e-12f, 1.0f, 1e12f}) are_true(*backend, KvType::kI16, dim, alone, size);
      // The scale of kQ8_0 is a binary16, so its range is smaller.
      for (const float size : {1e-3f, 1.0f, 1e6f}) are_true(*backend, KvType::kQ8_0Pairs, dim, alone, size);
    }
  }
}

TEST_P(Attention, NanAndInfinityReachEveryRowThatSeesThem) {
  constexpr int32_t kTokens = 100;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (int32_t number = 0; number < kKvTypes; ++number) {
    const KvType type = kv_type(GetParam(), number);
    for (const float bad : {kNan, kInfinity}) {
      // The other types saturate, or give a key's infinity no weight.
      if (bad == kInfinity && type != KvType::kI16) continue;
      for (const int where : {0, 1, 2}) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(type) << " " << bad << " " << where);
        Random random(15);
        const auto backend = make_backend(GetParam(), 1);
        Sequence sequence(*backend, {.kv_heads = 1, .group = 1, .type = type}, kTokens, random);
        std::vector<float>& rows = where == 0 ? sequence.q : where == 1 ? sequence.k : sequence.v;
        rows[50 * 64 + 3] = bad;
        const std::vector<float> out = sequence.attend(0, kTokens);
        for (int32_t row = 0; row < kTokens; ++row) {
          // A bad query changes its own row only; a bad key or value changes all rows that see it.
          const bool spoiled = where == 0 ? row == 50 : row >= 50;
          EXPECT_EQ(std::isfinite(out[static_cast<size_t>(row) * 64 + 3]), !spoiled) << row;
        }
      }
    }
  }
}

TEST_P(Attention, NumbersOf16BitsAreDecodedExactly) {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  std::vector<float> wide(all.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(all.data());
  const auto expect_exact = [&](size_t count, float (*truth_of)(uint16_t)) {
    for (size_t i = 0; i < count; ++i) {
      const float truth = truth_of(all[i]);
      if (std::isnan(truth)) {
        EXPECT_TRUE(std::isnan(wide[i]));
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(truth)) << i;
      }
    }
  };
  const AttentionKernels& kernels = *GetParam().attention;
  kernels.decode_half(bytes, 65536 / kPageTokens, bytes, wide.data());
  expect_exact(65536, quant::half_to_float);
  kernels.decode_bf16(bytes, 65536 / kPageTokens, bytes, wide.data());
  expect_exact(65536, quant::bf16_to_float);
  // Rows whose end is less than a vector.
  kernels.decode_half_row(bytes, 65535, wide.data());
  expect_exact(65535, quant::half_to_float);
  kernels.decode_bf16_row(bytes, 65535, wide.data());
  expect_exact(65535, quant::bf16_to_float);
}

TEST_P(Attention, ScoresOutsideTheVisiblePositionsMayHoldAnything) {
  constexpr int32_t kLo = 5, kHi = 23;
  const auto exponentials_beside = [](float outside) {
    std::array<float, kAttentionPage> scores;
    scores.fill(outside);
    for (int32_t t = kLo; t < kHi; ++t) scores[static_cast<size_t>(t)] = 0.1f * static_cast<float>(t);
    float largest = 0, sum = 0;
    GetParam().attention->exponentials(scores.data(), kLo, kHi, 1, 0, &largest, &sum);
    std::vector<float> all(scores.begin() + kLo, scores.begin() + kHi);
    all.insert(all.end(), {largest, sum});
    return all;
  };
  const std::vector<float> expected = exponentials_beside(0);
  for (const float outside : {125.0f, -1e30f, 1e30f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(exponentials_beside(outside), expected) << outside;
}

TEST_P(Attention, ASinkCanTakeTheWholeWeight) {
  Random random(10);
  const auto backend = make_backend(GetParam(), 1);
  Sequence sequence(*backend, {.kv_heads = 1, .group = 1, .key_dim = 8, .value_dim = 8}, 1, random);
  const AttentionSlice slice{0, 1, 0, sequence.pages};
  sequence.attend(0, 1);
  std::vector<float> out(8);
  for (const float sink : {200.0f, -200.0f}) {
    AttentionParams params = sequence.params();
    params.sinks = &sink;
    backend->attention(params, sequence.view, {&slice, 1}, sequence.q.data(), out.data());
    for (size_t d = 0; d < 8; ++d) EXPECT_EQ(out[d], sink > 0 ? sequence.v[d] * 0.0f : sequence.v[d]);
  }
}

}  // namespace
}  // namespace cairn::kernels::cpu
