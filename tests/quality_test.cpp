// The cost of int8 activations: perplexity of a trained model with quantised weights, compared with the same weights
// widened to F32 and multiplied in float32; and the cost of smaller KV types.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "convert/quantize.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"

namespace cairn {
namespace {

constexpr int32_t kTokens = 128;  // tokens per text
constexpr int32_t kTexts = 64;    // enough that chance does not affect the third digit
constexpr int32_t kRows = 128;

using Text = std::vector<TokenId>;

struct Model {
  explicit Model(const std::filesystem::path& path, kernels::KvType kv_type = kernels::KvType::kF32)
      : file(gguf::Reader::open(path).value()),
        backend(kernels::make_cpu_backend({.threads = 1, .isa = ""}).value()),
        runner(model::load_model(file, *backend, {.kv_type = kv_type, .batch_tokens_max = kRows, .logits_max = kRows})
                   .value()),
        pool(cache::PagePool::create(
                 *backend, runner->kv_layout(),
                 std::vector<int32_t>(runner->kv_layout().groups.size(), kTokens / kernels::kPageTokens))
                 .value()) {}

  /// Log-probabilities of every token after `tokens`, which continue the sequence in `pages`: one row for each.
  std::vector<std::vector<double>> step(std::span<const TokenId> tokens, int32_t position, cache::PageTable& pages) {
    const auto rows = static_cast<int32_t>(tokens.size());
    EXPECT_TRUE(pool.extend(pages, position + rows));
    const model::BatchSlice slice{SequenceId{}, 0, rows, position, &pages, model::LogitsWanted::kAll};
    const auto logits = runner->step({tokens, std::span(&slice, 1), &pool}).value();
    const auto vocabulary = static_cast<size_t>(runner->vocabulary());
    std::vector<std::vector<double>> result;
    for (size_t r = 0; r < tokens.size(); ++r) {
      const auto row = logits.values.subspan(r * vocabulary, vocabulary);
      const double largest = *std::ranges::max_element(row);
      double total = 0;
      for (const float value : row) total += std::exp(value - largest);
      auto& out = result.emplace_back();
      for (const float value : row) out.push_back(value - largest - std::log(total));
    }
    return result;
  }

  gguf::Reader file;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Runner> runner;
  cache::PagePool pool;
};

/// Texts that the model itself generates, sampled with its probabilities.
std::vector<Text> written_by(Model& model) {
  std::mt19937 random(1);
  const TokenId first{static_cast<int32_t>(model.file.metadata().integer("tokenizer.ggml.bos_token_id").value_or(1))};
  std::vector<Text> texts;
  for (int32_t i = 0; i < kTexts; ++i) {
    cache::PageTable pages;
    Text& text = texts.emplace_back(Text{first});
    while (text.size() < kTokens) {
      std::vector<double> shares = model.step(std::span(text).last(1), static_cast<int32_t>(text.size()) - 1, pages)[0];
      for (double& share : shares) share = std::exp(share);
      std::discrete_distribution<int32_t> token(shares.begin(), shares.end());
      text.push_back(TokenId{token(random)});
    }
    model.pool.release(pages);
  }
  return texts;
}

double run_perplexity(const std::filesystem::path& path, std::span<const Text> texts,
                      kernels::KvType kv_type = kernels::KvType::kF32) {
  Model model(path, kv_type);
  double sum = 0;
  for (const Text& text : texts) {
    cache::PageTable pages;
    const auto rows = model.step(text, 0, pages);
    model.pool.release(pages);
    for (size_t i = 0; i + 1 < text.size(); ++i) sum -= rows[i][static_cast<size_t>(index(text[i + 1]))];
  }
  return std::exp(sum / (static_cast<double>(texts.size()) * (kTokens - 1)));
}

class Perplexity : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / "cairn_perplexity";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path requantize(const std::filesystem::path& in, convert::QuantizeMix mix) const {
    const auto out = folder_ / (in.stem().string() + std::string(convert::quantize_mix_info(mix).name) + ".gguf");
    const auto done = convert::quantize_file(in, out, {.mix = mix});
    EXPECT_TRUE(done.has_value()) << done.error().text();
    return out;
  }

  const std::filesystem::path trained_ = std::filesystem::path(test_data()) / "trained/stories260K-f32.gguf";
  std::filesystem::path folder_;
};

TEST_F(Perplexity, Int8ActivationsHardlyChangeThePerplexity) {
  Model writer(trained_);
  const std::vector<Text> texts = written_by(writer);
  const double original = run_perplexity(trained_, texts);
  EXPECT_LT(original, 20);  // low, since the model predicts its own text: a wrong logit would be noticed
  for (const convert::QuantizeMix mix :
       {convert::QuantizeMix::kBF16, convert::QuantizeMix::kQ8_0, convert::QuantizeMix::kQ4_0}) {
    const auto quantised = requantize(trained_, mix);
    const double with_rounded = run_perplexity(quantised, texts);
    const double with_float = run_perplexity(requantize(quantised, convert::QuantizeMix::kF32), texts);
    std::printf("%s: perplexity %.4f, in float arithmetic %.4f (unquantised %.4f)\n",
                std::string(convert::quantize_mix_info(mix).name).c_str(), with_rounded, with_float, original);
    EXPECT_LT(std::abs(with_rounded / with_float - 1), 0.001);
    EXPECT_NE(with_float, original);
  }
}

TEST_F(Perplexity, SmallerKvTypesHardlyChangeThePerplexity) {
  Model writer(trained_);
  const std::vector<Text> texts = written_by(writer);
  const double original = run_perplexity(trained_, texts);
  struct Case {
    const char* name;
    kernels::KvType type;
    double bound;
  };
  for (const auto& [name, type, bound] : {Case{"f16", kernels::KvType::kF16, 1e-4},
                                          {"bf16", kernels::KvType::kBF16, 1e-3},
                                          {"q8_0", kernels::KvType::kQ8_0, 3e-3}}) {
    const double with_smaller = run_perplexity(trained_, texts, type);
    std::printf("keys and values in %s: perplexity %.4f (in f32 %.4f)\n", name, with_smaller, original);
    EXPECT_LT(std::abs(with_smaller / original - 1), bound);
    EXPECT_NE(with_smaller, original);
  }
}

}  // namespace
}  // namespace cairn
