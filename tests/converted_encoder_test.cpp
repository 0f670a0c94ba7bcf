// Compares encoders, embedding decoders and rerankers written by llama.cpp's converter with transformers, from the text
// to the vector or score (the README of the reference data tells how the files were made).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "chat/pair_prompts.h"
#include "engine/testing/collected_response.h"
#include "kernels/cpu/cpu_backend.h"
#include "loader/model_load.h"
#include "reference_logits.h"

namespace cairn {
namespace {

using Tokens = std::vector<TokenId>;

Tokens token_ids(const nlohmann::json& list) {
  Tokens ids;
  for (const int32_t id : list.get<std::vector<int32_t>>()) ids.push_back(TokenId{id});
  return ids;
}

std::filesystem::path converted(const std::string& name) {
  return std::filesystem::path(test_data()) / "converted" / name;
}

/// One text or pair, with the result for each kind of request.
struct Case {
  Tokens tokens;
  engine::EmbeddingOptions wish;
  std::vector<float> expected;
};

class ConvertedTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::ifstream stream(converted(std::string(GetParam()) + ".ref.json"));
    ASSERT_TRUE(stream.good()) << GetParam();
    reference_ = nlohmann::json::parse(stream);
    load("", 2);
  }
  void load(const std::string& isa, int threads) {
    loader::LoadOptions options;
    options.device.cpu.threads = threads;
    options.device.cpu.isa = isa;
    options.model.kv_type = kernels::KvType::kF32;  // for decoders; only the order of sums differs
    testing::internal::CaptureStderr();
    auto loaded = loader::load_model_file(converted(std::string(GetParam()) + ".gguf"), options);
    log_ = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    model_ = std::move(*loaded);
  }

  std::unique_ptr<engine::GenerateStream> submit(const Case& from) const {
    engine::GenerateRequest request;
    request.prompt = from.tokens;
    request.embed = from.wish;
    auto stream = model_->engine->submit(std::move(request));
    EXPECT_TRUE(stream.has_value()) << stream.error().text();
    return stream ? std::move(*stream) : nullptr;
  }
  std::vector<float> result_of(engine::GenerateStream& stream) const {
    const engine::Finish finish = engine::collect(stream).finish;
    EXPECT_EQ(finish.reason, engine::FinishReason::kStop) << finish.error.text();
    return finish.embedding;
  }

  /// Runs every case alone; then all of them at once, which must give the same bytes.
  std::vector<std::vector<float>> results_of(const std::vector<Case>& cases) const {
    std::vector<std::vector<float>> results;
    for (const Case& each : cases) results.push_back(result_of(*submit(each)));
    std::vector<std::unique_ptr<engine::GenerateStream>> streams;
    for (const Case& each : cases) streams.push_back(submit(each));
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::vector<float> beside = result_of(*streams[i]);
      EXPECT_EQ(beside.size(), results[i].size());
      if (beside.size() != results[i].size()) continue;
      EXPECT_EQ(std::memcmp(beside.data(), results[i].data(), beside.size() * sizeof(float)), 0) << "case " << i;
    }
    return results;
  }

  nlohmann::json reference_;
  std::string log_;
  std::unique_ptr<loader::LoadedModel> model_;
};

std::string test_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const char* name : {"generic", "avx2", "avx512", "neon"}) {
    if (kernels::make_cpu_backend({.threads = 1, .isa = name}).has_value()) names.emplace_back(name);
  }
  return names;
}

class ConvertedEmbeddingTest : public ConvertedTest {
 protected:
  static constexpr double kNmseMax = 1e-11;

  std::vector<Case> vectors_wanted() const {
    std::vector<Case> cases;
    for (const auto& run : reference_.at("runs")) {
      for (const auto& [kind, name] : {std::pair(model::Pooling::kMean, "embedding_mean"),
                                       {model::Pooling::kCls, "embedding_cls"},
                                       {model::Pooling::kLast, "embedding_last"}}) {
        cases.push_back({token_ids(run.at("tokens")), {.pooling = kind}, run.at(name).get<std::vector<float>>()});
      }
    }
    return cases;
  }
  static double worst_nmse(const std::vector<std::vector<float>>& vectors, const std::vector<Case>& cases) {
    double worst = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(vectors[i].size(), cases[i].expected.size());
      worst = std::max(worst, nmse(vectors[i], cases[i].expected));
    }
    return worst;
  }
};
INSTANTIATE_TEST_SUITE_P(Files, ConvertedEmbeddingTest,
                         testing::Values("bert", "bert-cased", "distilbert", "roberta", "xlm-roberta", "nomic_bert",
                                         "nomic_bert-moe", "jina_embeddings_v3", "modernbert", "eurobert",
                                         "embeddinggemma", "embeddinggemma-dense", "qwen3-embed"),
                         test_name);

TEST_P(ConvertedEmbeddingTest, TextsHaveTheTokensOfTransformers) {
  size_t texts = 0;
  for (const auto& run : reference_.at("runs")) {
    if (!run.contains("text")) continue;
    const auto text = run.at("text").get<std::string>();
    EXPECT_EQ(model_->tokenizer->encode(text, {.add_special = true}).value(), token_ids(run.at("tokens"))) << text;
    ++texts;
  }
  EXPECT_GE(texts, std::string(GetParam()).starts_with("embeddinggemma") ? 0u : 3u);
}

TEST_P(ConvertedEmbeddingTest, EveryKeyAndTensorOfTheFileIsUsed) {
  EXPECT_EQ(log_.find("not used"), std::string::npos) << log_;
}

// Both sides compute in float32: the tolerance is for the order of sums, and for the reference's seven digits.
TEST_P(ConvertedEmbeddingTest, VectorsAreThoseOfTransformersAloneAndInABatch) {
  const std::string pooling = reference_.at("pooling");
  EXPECT_EQ(model_->embedding.pooling, pooling == "mean"  ? model::Pooling::kMean
                                       : pooling == "cls" ? model::Pooling::kCls
                                                          : model::Pooling::kLast);
  EXPECT_FALSE(model_->embedding.ranks);
  const std::vector<Case> cases = vectors_wanted();
  const double worst = worst_nmse(results_of(cases), cases);
  std::printf("%-20s worst NMSE %.1e\n", GetParam(), worst);
  EXPECT_LE(worst, kNmseMax);
}

TEST_P(ConvertedEmbeddingTest, VectorsOfEveryInstructionSetAreThoseOfTransformersWithAnyNumberOfThreads) {
  const std::vector<Case> cases = vectors_wanted();
  for (const std::string& isa : instruction_sets()) {
    SCOPED_TRACE(isa);
    load(isa, 1);
    const auto vectors = results_of(cases);
    EXPECT_LE(worst_nmse(vectors, cases), kNmseMax);
    load(isa, 2);
    EXPECT_EQ(results_of(cases), vectors) << "with two threads";
  }
}

class ConvertedRerankerTest : public ConvertedTest {
 protected:
  std::vector<Case> scores_wanted() const {
    const bool unpooled = std::string(GetParam()) == "bert-rerank";
    std::vector<Case> cases;
    for (const auto& run : reference_.at("runs")) {
      const auto pairs =
          chat::PairPrompts::make(model_->file.metadata(), *model_->tokenizer, run.at("query").get<std::string>())
              .value();
      const chat::PairPrompt pair = pairs.with(run.at("document").get<std::string>(), 0).value();
      cases.push_back({pair.tokens,
                       {.pooling = model::Pooling::kRank, .second_begin = pair.second_begin},
                       run.at(unpooled ? "score_without_pooler" : "score").get<std::vector<float>>()});
    }
    return cases;
  }
  void expect_scores(const std::vector<std::vector<float>>& scores, const std::vector<Case>& cases) const {
    constexpr double kErrorMax = 1e-5;
    const bool probability = reference_.at("kind") == "yesno";
    for (size_t i = 0; i < cases.size(); ++i) {
      ASSERT_EQ(scores[i].size(), 1u);
      const double score = probability ? 1 / (1 + std::exp(-double{scores[i][0]})) : scores[i][0];
      EXPECT_NEAR(score, cases[i].expected.at(0), kErrorMax) << "case " << i;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Files, ConvertedRerankerTest,
                         testing::Values("bert-rerank", "distilbert-rerank", "roberta-rerank", "xlm-roberta-rerank",
                                         "modernbert-rerank", "qwen3-reranker"),
                         test_name);

TEST_P(ConvertedRerankerTest, PairsHaveTheTokensAndTypesOfTransformers) {
  for (const auto& run : reference_.at("runs")) {
    const auto pairs =
        chat::PairPrompts::make(model_->file.metadata(), *model_->tokenizer, run.at("query").get<std::string>())
            .value();
    const chat::PairPrompt pair = pairs.with(run.at("document").get<std::string>(), 0).value();
    EXPECT_EQ(pair.tokens, token_ids(run.at("tokens")));
    EXPECT_EQ(pairs.by_template(), std::string(GetParam()) == "qwen3-reranker");
    if (std::string(GetParam()) != "bert-rerank") continue;  // the others have a single token type
    std::vector<int32_t> types(pair.tokens.size(), 0);
    std::fill(types.begin() + pair.second_begin, types.end(), 1);
    EXPECT_EQ(types, run.at("token_types").get<std::vector<int32_t>>());
  }
}

// A file without the pooler cannot give the model's own scores, and loading it logs that.
TEST_P(ConvertedRerankerTest, ScoresAreThoseOfTransformersAloneAndInABatch) {
  EXPECT_EQ(log_.find("pooler") != std::string::npos, std::string(GetParam()) == "bert-rerank") << log_;
  EXPECT_TRUE(model_->embedding.ranks);
  EXPECT_EQ(model_->embedding.pooling, model::Pooling::kRank);
  const std::vector<Case> cases = scores_wanted();
  expect_scores(results_of(cases), cases);
}

TEST_P(ConvertedRerankerTest, ScoresOfEveryInstructionSetAreThoseOfTransformersWithAnyNumberOfThreads) {
  const std::vector<Case> cases = scores_wanted();
  for (const std::string& isa : instruction_sets()) {
    SCOPED_TRACE(isa);
    load(isa, 1);
    const auto scores = results_of(cases);
    expect_scores(scores, cases);
    load(isa, 2);
    EXPECT_EQ(results_of(cases), scores) << "with two threads";
  }
}

}  // namespace
}  // namespace cairn
