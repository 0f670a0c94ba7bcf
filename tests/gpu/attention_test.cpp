// Compares paged attention on the GPU with the CPU's: every kind of page, head sizes, windows, softcaps, sinks, slopes;
// and sequences alone with the same among others, however their prompts were cut.
#include <bit>
#include <numeric>

#include <array>

#include "gpu/lab.h"
#include "gpu/same_rows.h"

namespace cairn::gpu {
namespace {

struct AttentionShape {
  int32_t kv_heads = 2;
  int32_t group = 3;
  int32_t key_dim = 64;
  int32_t value_dim = 64;
  kernels::KvType type = kernels::KvType::kF32;
  float soft_cap = 0;
  int32_t window = 0;
  bool chunked = false;
  bool sinks = false;
  bool causal = true;
  bool slopes = false;
  float query_size = 1;

  int32_t heads() const { return kv_heads * group; }
};

/// Sequences with their queries, keys and values, and their pages on one backend.
class AttentionLab {
 public:
  AttentionLab(kernels::Backend& backend, const AttentionShape& shape, std::vector<int32_t> lengths, uint32_t seed)
      : backend_(backend), shape_(shape), memory_(backend) {
    Random random(seed);
    int32_t pages = 3;  // unused pages
    for (const int32_t tokens : lengths) pages += (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
    std::vector<int32_t> order(static_cast<size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[random.integer(0, static_cast<int32_t>(i))]);
    for (const int32_t tokens : lengths) {
      Sequence& made = sequences_.emplace_back();
      made.q = random.normals(int64_t{tokens} * shape.heads() * shape.key_dim, shape.query_size);
      made.k = random.normals(int64_t{tokens} * shape.kv_heads * shape.key_dim);
      made.v = random.normals(int64_t{tokens} * shape.kv_heads * shape.value_dim);
      kernels::cpu::round_rows(shape.type, shape.key_dim, made.k);
      kernels::cpu::round_rows(shape.type, shape.value_dim, made.v);
      for (int32_t page = 0; page * kernels::kPageTokens < tokens; ++page) {
        made.pages.push_back(PageId{order.back()});
        order.pop_back();
      }
    }
    view_.type = shape.type;
    view_.kv_heads = shape.kv_heads;
    view_.key_dim = shape.key_dim;
    view_.value_dim = shape.value_dim;
    const int64_t layer =
        int64_t{kernels::kPageTokens} * shape.kv_heads *
        (kernels::kv_row_bytes(shape.type, shape.key_dim) + kernels::kv_row_bytes(shape.type, shape.value_dim));
    view_.layer_offset = 128;
    view_.page_stride = (layer + 63) / 64 * 64 + 192;
    // Memory that is not written yet is NaN in all types, so that reading it is noticed.
    const std::vector<uint8_t> ones(static_cast<size_t>(view_.page_stride * pages), 0xff);
    view_.base = reinterpret_cast<std::byte*>(memory_.put(ones));
    std::vector<float> sinks, slopes;
    for (int32_t head = 0; head < shape.heads(); ++head) {
      sinks.push_back(random.normal(2));
      slopes.push_back(std::exp2(-8.0f * static_cast<float>(head + 1) / static_cast<float>(shape.heads())));
    }
    params_ = {.heads = shape.heads(),
               .scale = 1 / std::sqrt(static_cast<float>(shape.key_dim)) / shape.query_size,
               .soft_cap = shape.soft_cap,
               .window = shape.window,
               .chunked = shape.chunked,
               .sinks = shape.sinks ? memory_.put(sinks) : nullptr,
               .causal = shape.causal,
               .slopes = shape.slopes ? memory_.put(slopes) : nullptr};
  }

  /// Stores the parts' keys and values.
  void store(std::span<const Part> parts) {
    std::vector<float> k, v;
    for (const Part& part : parts) {
      append(sequences_[part.sequence].k, int64_t{shape_.kv_heads} * shape_.key_dim, part, k);
      append(sequences_[part.sequence].v, int64_t{shape_.kv_heads} * shape_.value_dim, part, v);
    }
    Arrays arrays(backend_);
    backend_.store_kv(view_, slices_of(parts), arrays.put(k), arrays.put(v));
    backend_.finish().value();
  }
  /// Stores the parts' keys and values and attends to them, in one call each; gives a row of heads * value_dim for
  /// each.
  std::vector<float> attend(std::span<const Part> parts) {
    store(parts);
    std::vector<float> q;
    int64_t outputs = 0;
    for (const Part& part : parts) {
      append(sequences_[part.sequence].q, int64_t{shape_.heads()} * shape_.key_dim, part, q);
      outputs += part.rows * width();
    }
    Arrays arrays(backend_);
    float* out = arrays.make(outputs);
    backend_.attention(params_, view_, slices_of(parts), arrays.put(q), out);
    return arrays.get(out, outputs);
  }
  /// The same of two lists of parts, whose keys and values are stored, in one step of the backend.
  std::array<std::vector<float>, 2> attend_in_a_step(std::span<const Part> first, std::span<const Part> second) {
    Arrays arrays(backend_);
    std::array<float*, 2> out{};
    std::array<std::vector<kernels::AttentionSlice>, 2> slices = {slices_of(first), slices_of(second)};
    std::array<const float*, 2> queries{};
    for (size_t i = 0; i < 2; ++i) {
      std::vector<float> q;
      for (const Part& part : i == 0 ? first : second)
        append(sequences_[part.sequence].q, int64_t{shape_.heads()} * shape_.key_dim, part, q);
      queries[i] = arrays.put(q);
      out[i] = arrays.make(std::ssize(q) / shape_.key_dim * shape_.value_dim);
    }
    backend_.begin_step();
    for (size_t i = 0; i < 2; ++i) backend_.attention(params_, view_, slices[i], queries[i], out[i]);
    backend_.finish().value();
    return {arrays.get(out[0], first[0].rows * width()), arrays.get(out[1], second[0].rows * width())};
  }
  /// Numbers of a row of results.
  int64_t width() const { return int64_t{shape_.heads()} * shape_.value_dim; }

 private:
  struct Sequence {
    std::vector<float> q, k, v;
    std::vector<PageId> pages;
  };
  static void append(const std::vector<float>& from, int64_t cols, const Part& part, std::vector<float>& to) {
    const auto rows = rows_of(from, cols, part.begin, part.rows);
    to.insert(to.end(), rows.begin(), rows.end());
  }
  std::vector<kernels::AttentionSlice> slices_of(std::span<const Part> parts) const {
    std::vector<kernels::AttentionSlice> slices;
    int32_t rows = 0;
    for (const Part& part : parts) {
      slices.push_back({rows, part.rows, part.begin, sequences_[part.sequence].pages});
      rows += part.rows;
    }
    return slices;
  }

  kernels::Backend& backend_;
  const AttentionShape shape_;
  Arrays memory_;
  kernels::AttentionParams params_;
  kernels::KvView view_;
  std::vector<Sequence> sequences_;
};

// Maximum rows of a step of a long prompt.
constexpr int32_t kStep = kEmulated ? 60 : 200;

class GpuAttention : public GpuTest {
 protected:
  /// Queries and weights are rounded as keys and values are, to 11 bits or to 8.
  static double bound(kernels::KvType type) {
    if (type == kernels::KvType::kF32) return 1e-5;
    return type == kernels::KvType::kBF16 ? 1.6e-2 : 2e-3;
  }
};

const AttentionShape kAttentionShapes[] = {
    {},
    {.kv_heads = 1, .group = 1},
    {.kv_heads = 4, .group = 8, .key_dim = 128, .value_dim = 128},
    {.key_dim = 80, .value_dim = 80},
    {.group = 1, .key_dim = 192, .value_dim = 128},
    {.kv_heads = 1, .group = 4, .key_dim = 256, .value_dim = 256},
    {.key_dim = 20, .value_dim = 36},
    {.type = kernels::KvType::kF16},
    {.kv_heads = 3, .group = 5, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kF16, .window = 40},
    {.type = kernels::KvType::kQ8_0},
    {.kv_heads = 1, .group = 1, .key_dim = 20, .value_dim = 36, .type = kernels::KvType::kF16, .sinks = true},
    {.kv_heads = 1, .group = 4, .key_dim = 256, .value_dim = 256, .type = kernels::KvType::kF16, .soft_cap = 20},
    {.kv_heads = 1, .group = 40, .key_dim = 192, .value_dim = 128, .type = kernels::KvType::kQ8_0},
    {.type = kernels::KvType::kF16, .query_size = 1e7f},  // outside the range of float16
    {.key_dim = 80, .value_dim = 48, .type = kernels::KvType::kQ8_0},
    {.type = kernels::KvType::kBF16, .sinks = true},
    {.kv_heads = 3, .group = 5, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kBF16, .window = 40},
    {.kv_heads = 1, .group = 1, .key_dim = 18, .value_dim = 35, .type = kernels::KvType::kBF16, .soft_cap = 20},
    {.soft_cap = 20, .window = 100},
    {.window = 33, .sinks = true},
    {.window = 33, .chunked = true},
    {.kv_heads = 3,
     .group = 5,
     .key_dim = 128,
     .value_dim = 128,
     .type = kernels::KvType::kBF16,
     .window = 40,
     .chunked = true},
    {.sinks = true},
};

TEST_F(GpuAttention, AgreesWithTheCpu) {
  uint32_t seed = 0;
  for (const AttentionShape& shape : kAttentionShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed);
    const std::vector<int32_t> lengths = {1, 3, 33, kStep, 3 * kStep + 100};
    AttentionLab on_gpu(gpu(), shape, lengths, seed), on_cpu(cpu(), shape, lengths, seed);
    ++seed;
    // All prompts in steps of a ragged batch, then single rows.
    const std::vector<std::vector<Part>> steps = {
        {{0, 0, 1}, {1, 0, 3}, {2, 0, 9}, {3, 0, 33}, {4, 0, kStep}},
        {{2, 9, 23}, {4, kStep, kStep}, {3, 33, 8}},
        {{4, 2 * kStep, kStep + 50}, {3, 41, 6}},  // from here on more rows than a run has
        {{4, 3 * kStep + 50, 49}, {2, 32, 1}, {3, 47, kStep - 48}},
        {{4, 3 * kStep + 99, 1}, {3, kStep - 1, 1}},
    };
    for (const auto& parts : steps) {
      const std::vector<float> a = on_gpu.attend(parts), b = on_cpu.attend(parts);
      EXPECT_LE(difference(a, b), bound(shape.type)) << "from position " << parts[0].begin;
    }
  }
}

// Within a step, slices that were sent are known again.
TEST_F(GpuAttention, SlicesOfAStepAreTakenForThoseBeforeOnlyIfTheyAreTheSame) {
  AttentionLab lab(gpu(), kAttentionShapes[0], {60, 60}, 90);
  const Part all[] = {{0, 0, 60}, {1, 0, 60}};
  lab.store(all);
  const Part one[] = {{0, 40, 2}};
  for (const Part& other : {Part{0, 41, 2}, Part{1, 40, 2}, Part{0, 40, 3}, Part{0, 40, 2}}) {
    const auto [first, second] = lab.attend_in_a_step(one, {&other, 1});
    EXPECT_TRUE(kernels::cpu::same_bits(first, lab.attend(one)));
    EXPECT_TRUE(kernels::cpu::same_bits(second, lab.attend({&other, 1}))) << other.sequence << ", " << other.begin;
  }
}

TEST_F(GpuAttention, ARowDoesNotDependOnItsNeighboursOrOnChunks) {
  uint32_t seed = 100;
  for (const AttentionShape& shape : kAttentionShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 100);
    constexpr auto kLengths = three_lengths(kEmulated ? 150 : 500, kEmulated ? 100 : 300);
    const auto make = [&] { return AttentionLab(gpu(), shape, {kLengths.begin(), kLengths.end()}, seed); };
    expect_same_rows(make, kLengths, int64_t{shape.heads()} * shape.value_dim);
    ++seed;
  }
}

// With few rows of a sequence another kernel is used than with many.
TEST_F(GpuAttention, FewRowsOfLongSequencesHaveTheBitsOfMany) {
  const AttentionShape shapes[] = {
      {.kv_heads = 2, .group = 4, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kF16},
      {.kv_heads = 1, .group = 16, .key_dim = 64, .value_dim = 64, .type = kernels::KvType::kF16, .soft_cap = 5},
      {.kv_heads = 1, .group = 1, .key_dim = 256, .value_dim = 256, .type = kernels::KvType::kF16, .window = 4100},
      {.kv_heads = 1,
       .group = 2,
       .key_dim = 64,
       .value_dim = 64,
       .type = kernels::KvType::kF16,
       .window = 4250,
       .chunked = true},
      {.kv_heads = 1, .group = 8, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kQ8_0, .sinks = true},
      {.kv_heads = 1, .group = 4, .key_dim = 80, .value_dim = 80, .type = kernels::KvType::kBF16, .window = 3000},
      // More queries than are split.
      {.kv_heads = 64, .group = 4, .key_dim = 16, .value_dim = 24, .type = kernels::KvType::kF16, .sinks = true},
  };
  uint32_t seed = 300;
  for (const AttentionShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 300);
    const int32_t tokens = shape.kv_heads > 2 ? 300 : 4300;
    constexpr int32_t kMany = 70;
    const int32_t begin = tokens - kMany;
    AttentionLab lab(gpu(), shape, {tokens, tokens}, seed++);
    const Part before[] = {{0, 0, begin}}, other[] = {{1, 0, begin}}, together[] = {{0, begin, kMany}};
    lab.store(before);
    lab.store(other);
    const std::vector<float> many = lab.attend(together);
    const int32_t few = std::max(1, 32 / shape.group);
    for (int32_t at = 0; at < kMany; at += kEmulated ? 46 : 23) {
      const int32_t rows = std::min(few, kMany - at);
      for (const int32_t count : {1, rows}) {
        const Part parts[] = {{1, begin, count}, {0, begin + at, count}};
        const std::vector<float> out = lab.attend(parts);
        const auto among = rows_of(many, lab.width(), at, count), alone = rows_of(out, lab.width(), count, count);
        EXPECT_TRUE(kernels::cpu::same_bits(alone, among)) << count << " rows from " << begin + at;
      }
    }
  }
}

// Where a slice of many rows begins in a sequence, so that chunks, and the size of chunks, change within tiles.
struct ManyRows {
  int32_t begin = 0;
  AttentionShape shape;
};
constexpr int32_t kManyHeads = 24;  // whose chunks are merged by the blocks that compute them
const ManyRows kManyRows[] = {
    {3'937, {.kv_heads = 1, .group = 3, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kF16}},
    {3'937, {.kv_heads = 1, .group = 3, .type = kernels::KvType::kQ8_0, .sinks = true}},
    {3'937, {.kv_heads = 1, .group = 2, .key_dim = 96, .value_dim = 80, .type = kernels::KvType::kBF16, .window = 150}},
    {3'937, {.kv_heads = 1, .group = 3, .type = kernels::KvType::kF16, .window = 4'000, .chunked = true}},
    {93,
     {.kv_heads = 1,
      .group = kManyHeads,
      .key_dim = 128,
      .value_dim = 128,
      .type = kernels::KvType::kF16,
      .sinks = true}},
    {241, {.kv_heads = 2, .group = 12, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kQ8_0}},
    {241, {.kv_heads = 3, .group = 8, .key_dim = 128, .value_dim = 128, .type = kernels::KvType::kBF16, .window = 150}},
    {231, {.kv_heads = 1, .group = kManyHeads, .type = kernels::KvType::kF16, .window = 33}},
    {231, {.kv_heads = 1, .group = kManyHeads, .type = kernels::KvType::kF16, .window = 250, .chunked = true}},
    {231, {.kv_heads = 6, .group = 4, .type = kernels::KvType::kBF16, .slopes = true}},
    {241, {.kv_heads = 6, .group = 4, .key_dim = 80, .value_dim = 80, .type = kernels::KvType::kQ8_0}},
    {101,
     {.kv_heads = 2, .group = 12, .key_dim = 256, .value_dim = 256, .type = kernels::KvType::kF16, .soft_cap = 20}},
    {101, {.kv_heads = 2, .group = 12, .key_dim = 192, .value_dim = 128, .type = kernels::KvType::kQ8_0, .window = 90}},
    {101, {.kv_heads = 2, .group = 12, .key_dim = 18, .value_dim = 35, .type = kernels::KvType::kBF16}},
};

TEST_F(GpuAttention, ManyRowsHaveTheBitsOfFew) {
  uint32_t seed = 300;
  for (const ManyRows& test : kManyRows) {
    SCOPED_TRACE(testing::Message() << "shape " << seed - 300);
    const std::vector<int32_t> lengths = {test.begin + 95, 150, 1, 77};
    const std::vector<Part> before = {{0, 0, test.begin}, {1, 0, 13}},
                            parts = {{0, test.begin, 95}, {2, 0, 1}, {1, 13, 30}, {3, 0, 77}};
    AttentionLab on_gpu(gpu(), test.shape, lengths, seed), on_cpu(cpu(), test.shape, lengths, seed);
    AttentionLab in_pieces(gpu(), test.shape, lengths, seed);
    ++seed;
    for (AttentionLab* lab : {&on_gpu, &on_cpu, &in_pieces}) lab->store(before);
    const std::vector<float> together = on_gpu.attend(parts);
    EXPECT_LE(difference(together, on_cpu.attend(parts)), bound(test.shape.type));
    const int32_t piece = std::max(1, 6 / test.shape.group);
    int64_t row = 0;
    for (const Part& part : parts) {
      for (int32_t at = 0, rows = 0; at < part.rows; at += rows, row += rows) {
        rows = std::min(piece, part.rows - at);
        const Part few{part.sequence, part.begin + at, rows};
        if (kEmulated && at / piece % 3 != 0) {  // which is slow: only a third of the pieces is compared
          in_pieces.store({&few, 1});
          continue;
        }
        const std::vector<float> alone = in_pieces.attend({&few, 1});
        EXPECT_TRUE(kernels::cpu::same_bits(alone, rows_of(together, on_gpu.width(), row, rows)))
            << "sequence " << part.sequence << ", position " << few.begin;
      }
    }
  }
}

TEST_F(GpuAttention, Bfloat16IsStoredRoundedToNearest) {
  std::vector<float> x;
  for (const uint32_t bits : {0x3f800000u, 0x3f807fffu, 0x3f808000u, 0x3f808001u, 0x3f818000u, 0x3fffc000u, 0xbf808000u,
                              0xbf808001u, 0xbf818000u, 0x80000000u, 0x00018000u, 0x477fe001u, 0x7f7f0000u, 0x7f800000u,
                              0xff800000u, 0x7f800001u, 0xffffffffu}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  const auto dim = static_cast<int32_t>(x.size());
  kernels::KvView view{.type = kernels::KvType::kBF16, .kv_heads = 1, .key_dim = dim, .value_dim = dim};
  const int64_t part = kernels::kPageTokens * kernels::kv_row_bytes(view.type, dim);
  view.page_stride = 2 * part;
  Arrays arrays(gpu());
  auto* page = arrays.make<uint16_t>(part);
  view.base = reinterpret_cast<std::byte*>(page);
  const std::vector<PageId> pages = {PageId{0}};
  const kernels::AttentionSlice slice{0, 1, 0, pages};
  gpu().store_kv(view, {&slice, 1}, arrays.put(x), arrays.put(x));
  const std::vector<uint16_t> stored = arrays.get(page, part);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(stored[i], quant::float_to_bf16(x[i])) << "key " << i;
    EXPECT_EQ(stored[static_cast<size_t>(part) / 2 + i], quant::float_to_bf16(x[i])) << "value " << i;
  }
}

// Attention of encoders: whole texts at once, with more rows than a run has.
TEST_F(GpuAttention, AttentionOverWholeTextsAgreesWithTheCpu) {
  constexpr int32_t kText = kEmulated ? 150 : 300;
  const AttentionShape of_texts{.kv_heads = 4, .group = 1, .key_dim = 32, .value_dim = 32, .causal = false};
  AttentionShape with_slopes = of_texts, in_halves = of_texts, wide = of_texts;
  with_slopes.slopes = true;
  in_halves.type = kernels::KvType::kF16;
  wide.type = kernels::KvType::kBF16;
  wide.key_dim = wide.value_dim = 64;
  std::vector<AttentionShape> shapes = {of_texts, with_slopes, in_halves, wide};
  for (const AttentionShape& each : {of_texts, in_halves, wide}) {
    for (const int32_t window : {1, 16, 131}) {
      shapes.push_back(each);
      shapes.back().window = window;
      shapes.back().group = window == 16 ? 3 : 1;
    }
  }
  for (const AttentionShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "window " << shape.window);
    const std::vector<int32_t> lengths = {5, kText, 1, 64};
    AttentionLab on_gpu(gpu(), shape, lengths, 200), on_cpu(cpu(), shape, lengths, 200);
    const Part parts[] = {{0, 0, 5}, {1, 0, kText}, {2, 0, 1}, {3, 0, 64}};
    const std::vector<float> together = on_gpu.attend(parts);
    EXPECT_LE(difference(together, on_cpu.attend(parts)), bound(shape.type));
    AttentionLab again(gpu(), shape, lengths, 200);
    int64_t row = 0;
    for (const Part& part : parts) {
      const std::vector<float> alone = again.attend({&part, 1});
      EXPECT_TRUE(kernels::cpu::same_bits(alone, rows_of(together, on_gpu.width(), row, part.rows)))
          << part.rows << " rows";
      row += part.rows;
    }
  }
}

// Rows see more and more positions, then fewer and fewer again, and the size of their chunks follows.
TEST_F(GpuAttention, LongSymmetricWindowsAgreeWithTheCpu) {
  constexpr int32_t kText = 4'400, kWindow = 4'100;
  for (const kernels::KvType type : {kernels::KvType::kF32, kernels::KvType::kF16}) {
    const AttentionShape shape{
        .kv_heads = 1, .group = 1, .key_dim = 16, .value_dim = 16, .type = type, .window = kWindow, .causal = false};
    AttentionLab on_gpu(gpu(), shape, {33, kText}, 210), on_cpu(cpu(), shape, {33, kText}, 210);
    const Part parts[] = {{0, 0, 33}, {1, 0, kText}};
    EXPECT_LE(difference(on_gpu.attend(parts), on_cpu.attend(parts)), bound(type));
  }
}

}  // namespace
}  // namespace cairn::gpu
