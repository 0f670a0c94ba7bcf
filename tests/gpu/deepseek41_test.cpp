// DeepSeek V4.1 on the GPU: its operations compared with the CPU's, and a small model with the formulas and the CPU.
#include "deepseek41/model_file.h"
#include "deepseek41/reference.h"
#include "gguf/reader.h"
#include "gpu/model_lab.h"
#if defined(CAIRN_EMULATED_GPU)
#include "emulation/cuda/queue.h"
#include "kernels/cuda/runtime/launch_queue.h"
#endif

namespace cairn::gpu {
namespace {

class GpuDeepseek41 : public GpuTest {
 protected:
  static constexpr int32_t kContext = 256;
  // Four rows are chosen, six are candidates, of 60 and of 30.
  static constexpr size_t kTokens = 60;

  GpuDeepseek41() {
    Random random(41);
    for (size_t i = 0; i < kTokens; ++i) tokens_.push_back(TokenId{random.integer(0, 95)});
  }
  static model::ModelOptions options(bool rounding) {
    return {.context_tokens = kContext, .simulate_rounding = rounding};
  }
  static gguf::Reader open(const deepseek41::ModelFile& made) { return gguf::Reader::open(made.path()).value(); }

  /// NMSE of each position's logits from those of the formulas.
  std::vector<double> errors_of(const gguf::Reader& file, bool rounding, bool formulas_round, size_t count) {
    Model model(file, gpu(), options(rounding));
    deepseek41::Reference reference(file, formulas_round);
    const std::span<const TokenId> tokens = std::span(tokens_).first(count);
    const std::vector<float> logits = logits_of(model, tokens, kStepRows);
    std::vector<double> errors;
    for (size_t i = 0; i < count; ++i) {
      const auto row = rows_of(logits, model.vocabulary(), static_cast<int64_t>(i), 1);
      errors.push_back(nmse(row, reference.next(tokens[i])));
    }
    return errors;
  }

  std::vector<TokenId> tokens_;
};

TEST_F(GpuDeepseek41, WhatEngramsAddAgreesWithTheCpu) {
  for (const auto& [streams, cols] : {std::pair{4, 67}, {4, 64}, {8, 1'100}, {1, 5}}) {
    SCOPED_TRACE(testing::Message() << streams << " streams of " << cols);
    const int64_t width = int64_t{streams} * cols;
    Random random(1);
    std::vector<float> x = random.normals(kRowsMax * width);
    std::vector<float> keys_value = random.normals(kRowsMax * (width + cols));
    const std::vector<float> query_norm = random.normals(width), key_norm = random.normals(width);
    // A product of zero, and one that is nearly zero.
    std::ranges::fill(std::span(keys_value).first(static_cast<size_t>(cols)), 0.0F);
    for (size_t i = 0; i < static_cast<size_t>(cols); ++i) {
      keys_value[static_cast<size_t>(width + cols) + i] = i < 2 ? 1.0F : 0;
      x[static_cast<size_t>(width) + i] =
          i < 2 ? (i == 0 ? query_norm[1] * key_norm[1] : -query_norm[0] * key_norm[0]) : 0;
    }
    check_rows(gpu(), cpu(), 1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      const kernels::EngramParams params{streams, 1e-6F, arrays.put(query_norm), arrays.put(key_norm)};
      float* there = arrays.put(rows_of(x, width, first, rows));
      backend.deepseek41()->add_engram(params, arrays.put(rows_of(keys_value, width + cols, first, rows)), rows, cols,
                                       there);
      return arrays.get(there, rows * width);
    });
  }
}

// Exact on both: all bits are equal.
TEST_F(GpuDeepseek41, RoundedRowsHaveTheBitsOfTheCpu) {
  constexpr int64_t kRows = 40;
  for (const kernels::SimulatedRounding rounding :
       {kernels::SimulatedRounding::kFp8Blocks32, kernels::SimulatedRounding::kFp4Blocks32,
        kernels::SimulatedRounding::kFp4Blocks16}) {
    for (const int32_t dims : {512, 100, 64, 23, 7}) {
      SCOPED_TRACE(testing::Message() << "rounding " << static_cast<int>(rounding) << " of " << dims);
      Random random(2);
      std::vector<float> x = random.normals(kRows * dims);
      // Rows from the tiniest to large ones, one of zeros of both signs, and one of numbers in the middle between two.
      for (size_t i = 0; i < x.size(); ++i) {
        const auto row = static_cast<int>(i) / dims;
        x[i] = std::ldexp(x[i], row - 30);
        if (row == 5) x[i] = i % 2 == 0 ? 0.0F : -0.0F;
        if (row == 6) x[i] = 0.25F * static_cast<float>(i % 25);
      }
      const auto rounded = [&](kernels::Backend& backend, int64_t first, int64_t rows) {
        Arrays arrays(backend);
        float* there = arrays.put(rows_of(x, dims, first, rows));
        backend.deepseek41()->round_rows(rounding, there, rows, dims);
        return arrays.get(there, rows * dims);
      };
      const std::vector<float> on_gpu = rounded(gpu(), 0, kRows);
      EXPECT_TRUE(kernels::cpu::same_bits(on_gpu, rounded(cpu(), 0, kRows)));
      EXPECT_FALSE(kernels::cpu::same_bits(on_gpu, x));
      for (const int64_t row : {0, 17}) {
        EXPECT_TRUE(kernels::cpu::same_bits(rounded(gpu(), row, 1), rows_of(on_gpu, dims, row, 1))) << row << " alone";
      }
    }
  }
}

TEST_F(GpuDeepseek41, LogitsAreThoseOfTheFormulas) {
  const deepseek41::ModelFile made;
  const std::vector<double> errors = errors_of(open(made), false, false, kTokens);
  EXPECT_LE(std::ranges::max(errors), 1e-8);
}

// A number near the middle between two that a format has may be rounded to either, so that later rows differ more: the
// first ones do not.
TEST_F(GpuDeepseek41, RoundedRowsGiveTheFormulasLogits) {
  const deepseek41::ModelFile made;
  const gguf::Reader file = open(made);
  std::vector<double> errors = errors_of(file, true, true, 40);
  EXPECT_LE(errors.front(), 1e-8);
  std::ranges::sort(errors);
  EXPECT_LE(errors[errors.size() / 2], 1e-5);
  EXPECT_GT(std::ranges::max(errors_of(file, false, true, 40)), 1e-4) << "rounding changes nothing";
}

// At position 41 two rows of the second file have a score of zero, of which the CPU chooses the other.
TEST_F(GpuDeepseek41, LogitsAgreeWithTheCpu) {
  for (const auto& [fp8_tables, count] : {std::pair{false, kTokens}, {true, size_t{41}}}) {
    const deepseek41::ModelFile made({.fp8_tables = fp8_tables});
    const gguf::Reader file = open(made);
    const std::span<const TokenId> tokens = std::span(tokens_).first(count);
    Model on_gpu(file, gpu(), options(false)), on_cpu(file, cpu(), options(false));
    const std::vector<float> logits = logits_of(on_gpu, tokens, kStepRows);
    EXPECT_LE(difference(logits, logits_of(on_cpu, tokens, kStepRows)), kBoundF32) << fp8_tables;
  }
}

TEST_F(GpuDeepseek41, CandidatesChangeLaterLogits) {
  const deepseek41::ModelFile made, all_blocks({.keys = [](gguf::Writer& writer) {
    writer.set_integer("deepseek41.attention.indexer.candidate_blocks", gguf::ValueType::kU32, 100);
  }});
  const gguf::Reader file = open(made), free_file = open(all_blocks);
  Model model(file, gpu(), options(false)), free(free_file, gpu(), options(false));
  const std::span<const TokenId> tokens = std::span(tokens_).first(40);
  const std::vector<float> logits = logits_of(model, tokens, kStepRows);
  const std::vector<float> unbounded = logits_of(free, tokens, kStepRows);
  const auto early = rows_of(logits, model.vocabulary(), 0, 6);  // six rows are candidates
  EXPECT_TRUE(kernels::cpu::same_bits(early, rows_of(unbounded, model.vocabulary(), 0, 6)));
  EXPECT_GT(difference(logits, unbounded), 1e-2);
}

TEST_F(GpuDeepseek41, EveryDivisionIntoStepsGivesTheSameBytes) {
  const deepseek41::ModelFile made({.fp8_tables = true});
  const gguf::Reader file = open(made);
  Model model(file, gpu(), options(true));
  const std::span<const TokenId> tokens = std::span(tokens_).first(45);
  const std::vector<float> whole = logits_of(model, tokens, kStepRows);
  for (const size_t chunk : {size_t{5}, size_t{33}}) {
    EXPECT_TRUE(kernels::cpu::same_bits(whole, logits_of(model, tokens, chunk))) << "chunks of " << chunk;
  }
  EXPECT_TRUE(kernels::cpu::same_bits(whole, logits_among_others(model, tokens))) << "among others";
}

// The head's rows stand at the last position of their block, whose keys lie behind those of the text.
TEST_F(GpuDeepseek41, DraftsOfItsHeadAreThoseOfTheFormulas) {
  const deepseek41::ModelFile made({.head = deepseek41::Head::kBeside});
  const gguf::Reader file = open(made);
  model::ModelOptions with_head = options(false);
  with_head.load_mtp = true;
  Model model(file, gpu(), with_head);
  deepseek41::Reference reference(file, false);
  TestSequence sequence(model);
  constexpr size_t kText = 39;  // the window begins at the last row of a page
  sequence.step(std::span(tokens_).first(7), model::LogitsWanted::kLast);
  sequence.step(std::span(tokens_).subspan(7, kText - 7), model::LogitsWanted::kLast);
  for (size_t i = 0; i < kText; ++i) reference.next(tokens_[i]);
  TokenId last = tokens_[kText];
  const std::vector<deepseek41::Reference::Draft> expected = reference.drafts(last);
  const model::BatchSlice first = sequence.slice(0, deepseek41::kBlock, model::LogitsWanted::kLast);
  for (int32_t ahead = 0; ahead < deepseek41::kBlock; ++ahead) {
    model::BatchSlice slice = first;
    slice.rows = 1;
    slice.position_begin += ahead;
    slice.drafts_before = ahead;
    const auto view = model.runner().mtp_step({{&last, 1}, {&slice, 1}, &model.pool()});
    ASSERT_TRUE(view.has_value()) << view.error().text();
    const deepseek41::Reference::Draft& draft = expected[static_cast<size_t>(ahead)];
    EXPECT_LE(nmse(view->values, draft.logits), 1e-8) << ahead;
    EXPECT_NEAR(view->confidence[0], draft.confidence, 1e-4) << ahead;
    last = largest(view->values);
    EXPECT_EQ(last, draft.token);
  }
}

#if defined(CAIRN_EMULATED_GPU)
// Engrams are looked up before a step's kernels are listed, and their rows are written among them.
TEST_F(GpuDeepseek41, DecodeStepsBecomeGraphs) {
  const deepseek41::ModelFile made;
  const gguf::Reader file = open(made);
  Model model(file, gpu(), options(false));
  TestSequence sequence(model);
  const std::span<const TokenId> tokens = tokens_;
  sequence.steps(tokens.first(20));
  const int64_t before = kernels::cuda::emulated::graphs_launched();
  constexpr size_t kSteps = 12;
  for (size_t i = 0; i < kSteps; ++i) sequence.step(tokens.subspan(20 + i, 1));
  // Steps of two kinds, since every second position completes a row of two, and each step is two graphs.
  constexpr auto kAlike = static_cast<int64_t>(kSteps) - 2 * kernels::cuda::LaunchQueue::kAlikeMin;
  EXPECT_EQ(kernels::cuda::emulated::graphs_launched() - before, 2 * kAlike);
}
#endif

}  // namespace
}  // namespace cairn::gpu
