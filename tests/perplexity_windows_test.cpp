// Scores of windows: compared with another implementation's logits, for any batch and number of threads, and compared
// with log-probabilities from a file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/system/thread_pool.h"
#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "perplexity/statistics.h"
#include "perplexity/windows.h"
#include "reference_logits.h"

namespace cairn {
namespace {

struct Limits {
  int32_t rows = 512;
  int32_t logit_rows = 512;
  int threads = 1;
};

/// Scores of all windows by a model loaded for them.
Result<std::vector<perplexity::PositionScore>> scores_of(const std::string& name, std::span<const TokenId> tokens,
                                                         const perplexity::ScoreOptions& options, Limits limits = {}) {
  const auto path = std::filesystem::path(test_data()) / name;
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  CAIRN_TRY(const auto backend, kernels::make_cpu_backend({.threads = limits.threads, .isa = ""}));
  CAIRN_TRY(const auto runner, model::load_model(file, *backend,
                                                 {.context_tokens = options.windows.tokens,
                                                  .kv_type = kernels::KvType::kF32,
                                                  .batch_tokens_max = limits.rows,
                                                  .logits_max = limits.logit_rows}));
  CAIRN_TRY(cache::PagePool pool,
            cache::PagePool::create(*backend, runner->kv_layout(),
                                    perplexity::window_pages(runner->kv_layout(), options.windows, options.at_once)));
  ThreadPool threads(limits.threads);
  return perplexity::score_windows(*runner, pool, threads, tokens, options);
}

std::vector<TokenId> random_tokens(int32_t count, int32_t vocabulary) {
  std::mt19937 random(7);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{static_cast<int32_t>(random() % vocabulary)});
  return tokens;
}

TEST(PerplexityWindows, ScoresAreThoseOfReferenceLogits) {
  const auto reference = read_reference(std::filesystem::path(test_data()) / "models/llama.ref.json");
  int compared = 0;
  for (const Prompt& prompt : reference.runs) {
    for (size_t i = 0; i < prompt.positions.size(); ++i) {
      // The window whose last counted position is this one.
      const int32_t tokens = prompt.positions[i] + 2;
      if (tokens < perplexity::kWindowTokensMin || tokens > std::ssize(prompt.tokens)) continue;
      const auto scores = scores_of("models/llama.gguf", std::span(prompt.tokens).first(tokens),
                                    {.windows = {.tokens = tokens, .stride = 1}});
      ASSERT_TRUE(scores.has_value()) << scores.error().text();
      ASSERT_EQ(scores->size(), 1u);
      const auto& logits = prompt.logits[i];
      double total = 0;
      for (const float logit : logits) total += std::exp(static_cast<double>(logit));
      const double expected = std::log(total) - logits[static_cast<size_t>(index(prompt.tokens[tokens - 1]))];
      EXPECT_NEAR((*scores)[0].nll, expected, 2e-3) << "after position " << prompt.positions[i];
      EXPECT_NEAR(perplexity::perplexity_of(*scores).value, std::exp(expected), std::exp(expected) * 2e-3);
      ++compared;
    }
  }
  EXPECT_GT(compared, 5);
}

TEST(PerplexityWindows, ScoresDoNotDependOnBatchOrThreads) {
  const auto tokens = random_tokens(7 * 32 + 5, 316);
  for (const int32_t stride : {0, 8}) {
    perplexity::ScoreOptions options{.windows = {.tokens = 32, .stride = stride, .first = TokenId{1}}};
    const auto expected = scores_of("models/llama.gguf", tokens, options);
    ASSERT_TRUE(expected.has_value()) << expected.error().text();
    EXPECT_EQ(std::ssize(*expected), options.windows.of(std::ssize(tokens)) * options.windows.counted());
    for (const Limits limits : {Limits{}, Limits{.rows = 12, .logit_rows = 9}, Limits{.threads = 2}}) {
      for (const int32_t at_once : {1, 3, 7}) {
        options.at_once = at_once;
        const auto scores = scores_of("models/llama.gguf", tokens, options, limits);
        ASSERT_TRUE(scores.has_value()) << scores.error().text();
        ASSERT_EQ(scores->size(), expected->size());
        for (size_t i = 0; i < scores->size(); ++i) ASSERT_EQ((*scores)[i].nll, (*expected)[i].nll) << i;
      }
    }
  }
}

TEST(PerplexityWindows, WindowsAndCountedPositionsAreWhereTheyShouldBe) {
  const perplexity::Windows halves{.tokens = 8};
  EXPECT_EQ(halves.counted(), 3);  // positions 4, 5 and 6 predict tokens 5, 6 and 7
  EXPECT_EQ(halves.counted_begin(), 4);
  EXPECT_EQ(halves.of(7), 0);
  EXPECT_EQ(halves.of(23), 2);
  const perplexity::Windows strided{.tokens = 8, .stride = 3};
  EXPECT_EQ(strided.counted_begin(), 4);
  EXPECT_EQ(strided.of(8), 1);
  EXPECT_EQ(strided.of(14), 3);
  // The first token is replaced, so another one there changes nothing.
  auto tokens = random_tokens(8, 316);
  const perplexity::ScoreOptions options{.windows = {.tokens = 8, .first = TokenId{1}}};
  const auto before = scores_of("models/llama.gguf", tokens, options);
  tokens[0] = TokenId{index(tokens[0]) == 5 ? 6 : 5};
  const auto after = scores_of("models/llama.gguf", tokens, options);
  ASSERT_TRUE(before.has_value() && after.has_value());
  for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ((*before)[i].nll, (*after)[i].nll);
}

class PerplexityAgainst : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("cairn_logits_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(PerplexityAgainst, TheDivergenceFromTheSameModelIsZero) {
  const auto tokens = random_tokens(5 * 32, 316);
  perplexity::ScoreOptions options{.windows = {.tokens = 32, .first = TokenId{1}}, .at_once = 2};
  auto writer = perplexity::LogitsFileWriter::create(path_, {32, 316, 5}, tokens);
  ASSERT_TRUE(writer.has_value()) << writer.error().text();
  options.save = &*writer;
  const auto saved = scores_of("models/llama.gguf", tokens, options, {.threads = 2});
  ASSERT_TRUE(saved.has_value()) << saved.error().text();
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(writer->finish().has_value());

  const auto base = perplexity::LogitsFile::open(path_);
  ASSERT_TRUE(base.has_value()) << base.error().text();
  EXPECT_EQ(base->tokens(), tokens);
  options.save = nullptr;
  options.against = &*base;
  const auto scores = scores_of("models/llama.gguf", tokens, options);
  ASSERT_TRUE(scores.has_value()) << scores.error().text();
  const perplexity::ModelComparison compared = perplexity::compare_models(*scores);
  EXPECT_NEAR(compared.divergence.value, 0, 1e-5);
  EXPECT_LT(compared.divergence_largest, 3e-4);
  EXPECT_EQ(compared.same_first.value, 1);
  EXPECT_NEAR(compared.log_perplexity_ratio.value, 0, 1e-4);
  EXPECT_GT(compared.correlation, 0.99999);
  EXPECT_EQ(perplexity::perplexity_of(*scores).value, perplexity::perplexity_of(*saved).value);

  // Another model of the same vocabulary has a divergence above 0.
  const auto others = scores_of("models/gemma.gguf", tokens, options);
  ASSERT_TRUE(others.has_value()) << others.error().text();
  EXPECT_GT(perplexity::compare_models(*others).divergence.value, 0.01);
  EXPECT_LT(perplexity::compare_models(*others).same_first.value, 1);
}

}  // namespace
}  // namespace cairn
