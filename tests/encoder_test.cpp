// Compares encoders with vectors of another implementation (tests/data/README.md), checks that a text's vector does not
// depend on the texts beside it, and compares the ranking head with arithmetic in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "edited_model.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/embedder.h"
#include "model/model.h"
#include "reference_logits.h"

namespace cairn {
namespace {

using Vector = std::vector<float>;

std::filesystem::path fixture(const std::string& name) { return std::filesystem::path(test_data()) / "models" / name; }

struct Reference {
  std::vector<TokenId> tokens;
  std::vector<int32_t> row_positions;
  std::vector<Vector> rows;
  Vector mean;
  Vector first;
  Vector last;
};

std::vector<Reference> read_runs(const std::string& model) {
  std::ifstream stream(fixture(model + ".ref.json"));
  const auto json = nlohmann::json::parse(stream);
  std::vector<Reference> runs;
  for (const auto& from : json.at("runs")) {
    Reference run;
    for (const int32_t id : from.at("tokens").get<std::vector<int32_t>>()) run.tokens.push_back(TokenId{id});
    run.row_positions = from.at("none_positions").get<std::vector<int32_t>>();
    run.rows = from.at("embedding_none").get<std::vector<Vector>>();
    run.mean = from.at("embedding_mean").at(0).get<Vector>();
    run.first = from.at("embedding_cls").at(0).get<Vector>();
    run.last = from.at("embedding_last").at(0).get<Vector>();
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const char* name : {"generic", "avx2", "avx512", "avx512bf16", "neon"}) {
    if (kernels::make_cpu_backend({.threads = 1, .isa = name}).has_value()) names.emplace_back(name);
  }
  return names;
}

/// Chunks of a few rows, so that texts are cut.
constexpr int32_t kChunkRows = 40;

class Model {
 public:
  Model(const std::filesystem::path& path, const std::string& isa, int threads, int32_t chunk_rows = kChunkRows)
      : file_(gguf::Reader::open(path).value()),
        backend_(kernels::make_cpu_backend({.threads = threads, .isa = isa}).value()) {
    auto embedder = model::load_embedder(file_, *backend_, {.batch_tokens_max = chunk_rows});
    if (!embedder.has_value()) throw std::runtime_error(embedder.error().text());
    embedder_ = std::move(embedder).value();
  }

  model::Embedder& embedder() { return *embedder_; }
  Vector embed(std::span<const model::EmbedText> texts, model::Pooling pooling) {
    size_t rows = texts.size();
    if (pooling == model::Pooling::kNone) {
      rows = 0;
      for (const model::EmbedText& text : texts) rows += text.tokens.size();
    }
    Vector out(rows * (pooling == model::Pooling::kRank ? 1 : embedder_->ability().dimensions), NAN);
    EXPECT_TRUE(embedder_->embed(texts, pooling, out).has_value());
    return out;
  }
  Vector embed(const std::vector<TokenId>& tokens, model::Pooling pooling) {
    const model::EmbedText text{tokens};
    return embed({&text, 1}, pooling);
  }

 private:
  gguf::Reader file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Embedder> embedder_;
};

struct Fixture {
  const char* name;
  model::Pooling pooling;
  /// llama.cpp computes GELU by the tanh formula, from a table of binary16 numbers; we compute GELU itself.
  double nmse_max;
};
void PrintTo(const Fixture& f, std::ostream* out) { *out << f.name; }

class EncoderTest : public testing::TestWithParam<Fixture> {
 protected:
  static std::filesystem::path file() { return fixture(std::string(GetParam().name) + ".gguf"); }
};
INSTANTIATE_TEST_SUITE_P(Fixtures, EncoderTest,
                         testing::Values(Fixture{"bert", model::Pooling::kCls, 1e-6},
                                         Fixture{"nomic-bert", model::Pooling::kMean, 1e-10},
                                         Fixture{"jina-bert-v2", model::Pooling::kMean, 1e-6}),
                         [](const auto& p) {
                           std::string name = p.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(EncoderTest, VectorsAreThoseOfTheReference) {
  const std::vector<Reference> runs = read_runs(GetParam().name);
  ASSERT_FALSE(runs.empty());
  for (const std::string& isa : isas()) {
    Model model(file(), isa, 2);
    EXPECT_EQ(model.embedder().ability().pooling, GetParam().pooling);
    EXPECT_EQ(model.embedder().ability().dimensions, 64);
    EXPECT_EQ(model.embedder().context_tokens(), 512);
    EXPECT_FALSE(model.embedder().ability().ranks);
    double worst = 0;
    for (const Reference& run : runs) {
      const Vector rows = model.embed(run.tokens, model::Pooling::kNone);
      for (size_t i = 0; i < run.rows.size(); ++i) {
        worst = std::max(worst, nmse(std::span(rows).subspan(run.row_positions[i] * 64, 64), run.rows[i]));
      }
      worst = std::max(worst, nmse(model.embed(run.tokens, model::Pooling::kMean), run.mean));
      worst = std::max(worst, nmse(model.embed(run.tokens, model::Pooling::kCls), run.first));
      worst = std::max(worst, nmse(model.embed(run.tokens, model::Pooling::kLast), run.last));
    }
    std::printf("%-14s %-8s worst NMSE %.1e\n", GetParam().name, isa.c_str(), worst);
    EXPECT_LE(worst, GetParam().nmse_max) << isa;
  }
}

void expect_same_bytes(std::span<const float> a, std::span<const float> b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << what;
}

/// Files of all kinds, whatever they are compared with.
class EncoderRowsTest : public testing::TestWithParam<const char*> {
 protected:
  static std::filesystem::path file() { return std::filesystem::path(test_data()) / GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Files, EncoderRowsTest,
                         testing::Values("models/bert.gguf", "models/nomic-bert.gguf", "models/jina-bert-v2.gguf",
                                         "converted/nomic_bert-moe.gguf", "converted/jina_embeddings_v3.gguf",
                                         "converted/modernbert.gguf", "converted/eurobert.gguf",
                                         "converted/embeddinggemma-dense.gguf"),
                         [](const auto& p) {
                           std::string name = p.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST_P(EncoderRowsTest, AVectorDoesNotDependOnOtherTextsOfTheBatch) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (const std::string& isa : isas()) {
    SCOPED_TRACE(isa);
    Model model(file(), isa, 1);
    Model other(file(), isa, 2, 512);
    const auto width = static_cast<size_t>(model.embedder().ability().dimensions);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<TokenId>> texts;
      int32_t rows = 0;
      while (texts.size() < static_cast<size_t>(model.embedder().texts_max())) {
        const auto length = static_cast<int32_t>(1 + random() % (round == 0 ? 8 : 160));
        if (rows + length > model.embedder().batch_tokens_max()) break;
        rows += length;
        auto& text = texts.emplace_back();
        for (int32_t i = 0; i < length; ++i) text.push_back(TokenId{static_cast<int32_t>(random() % 128)});
      }
      ASSERT_GT(texts.size(), 2u);
      std::vector<model::EmbedText> batch;
      for (const auto& text : texts) batch.push_back({text});
      const Vector together = model.embed(batch, model::Pooling::kMean);
      expect_same_bytes(together, other.embed(batch, model::Pooling::kMean), "chunks and threads");
      for (size_t i = 0; i < texts.size(); ++i) {
        expect_same_bytes(std::span(together).subspan(i * width, width), model.embed(texts[i], model::Pooling::kMean),
                          "text " + std::to_string(i));
      }
    }
  }
}

// Every token affects the vector, and so does its position.
TEST_P(EncoderRowsTest, ATextOfTheWholeContextWorksAndItsOrderMatters) {
  Model model(file(), "", 2);
  std::mt19937 random(3);
  std::vector<TokenId> text;
  for (int32_t i = 0; i < model.embedder().context_tokens(); ++i) {
    text.push_back(TokenId{static_cast<int32_t>(5 + random() % 100)});
  }
  const Vector whole = model.embed(text, model::Pooling::kCls);
  std::swap(text[400], text[500]);
  const double moved = nmse(model.embed(text, model::Pooling::kCls), whole);
  EXPECT_GT(moved, 1e-9);
  EXPECT_LT(moved, 1);
  text.pop_back();
  EXPECT_GT(nmse(model.embed(text, model::Pooling::kCls), whole), 1e-9);
}

TEST_P(EncoderTest, TextsBeyondTheLimitsAreProgrammerErrors) {
  Model model(file(), "", 1);
  EXPECT_DEATH(model.embed(std::vector<TokenId>(), model::Pooling::kMean), "rows > 0");
  EXPECT_DEATH(model.embed(std::vector(513, TokenId{5}), model::Pooling::kMean), "context_tokens");
  EXPECT_DEATH(model.embed(std::vector(1, TokenId{128}), model::Pooling::kMean), "vocabulary");
  EXPECT_DEATH(model.embed(std::vector(1, TokenId{5}), model::Pooling::kRank), "ranks");
}

constexpr int64_t kWidth = 64;

std::vector<TokenId> some_tokens(int32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{static_cast<int32_t>(5 + random() % 100)});
  return tokens;
}

TEST(EncoderRankTest, TheHeadAgreesWithDoublePrecision) {
  const AddedTensor dense = random_tensor("cls.weight", {kWidth, kWidth}, 1);
  const AddedTensor dense_bias = random_tensor("cls.bias", {kWidth}, 2);
  const AddedTensor output = random_tensor("cls.output.weight", {kWidth, 1}, 3);
  const AddedTensor output_bias = random_tensor("cls.output.bias", {1}, 4);
  const EditedModel file(fixture("bert.gguf"), "cairn-ranks", {dense, dense_bias, output, output_bias},
                         [](gguf::Writer& keys) { keys.set_integer("bert.pooling_type", gguf::ValueType::kU32, 4); });
  Model model(file.path(), "", 2);
  EXPECT_TRUE(model.embedder().ability().ranks);
  EXPECT_EQ(model.embedder().ability().pooling, model::Pooling::kRank);
  const auto first = some_tokens(30, 1), second = some_tokens(70, 2);
  const std::vector<model::EmbedText> texts = {{first, 10}, {second, 20}};
  const Vector scores = model.embed(texts, model::Pooling::kRank);
  const Vector hidden = model.embed(texts, model::Pooling::kCls);
  ASSERT_EQ(scores.size(), 2u);
  for (size_t text = 0; text < texts.size(); ++text) {
    double score = output_bias.values[0];
    for (int64_t i = 0; i < kWidth; ++i) {
      double sum = dense_bias.values[i];
      for (int64_t k = 0; k < kWidth; ++k) sum += double{dense.values[i * kWidth + k]} * hidden[text * kWidth + k];
      score += output.values[i] * std::tanh(sum);
    }
    EXPECT_NEAR(scores[text], score, 1e-5 * (1 + std::abs(score)));
  }
  EXPECT_NE(scores[0], scores[1]);
}

TEST(EncoderRankTest, AHeadOfSeveralOutputsDoesNotRank) {
  const EditedModel file(fixture("bert.gguf"), "cairn-classes", {random_tensor("cls.output.weight", {kWidth, 3}, 3)},
                         [](gguf::Writer&) {});
  EXPECT_FALSE(Model(file.path(), "", 1).embedder().ability().ranks);
}

// The table of types has two rows; if they are equal it does not matter which one is added.
TEST(EncoderRankTest, TheSecondTextOfAPairHasItsOwnTokenType) {
  AddedTensor types = random_tensor("token_types.weight", {kWidth, 2}, 5);
  const auto tokens = some_tokens(50, 3);
  const model::EmbedText one{tokens}, pair{tokens, 20};
  const auto vectors = [&](const char* name) {
    const EditedModel file(fixture("bert.gguf"), name, {types}, [](gguf::Writer&) {});
    Model model(file.path(), "", 1);
    return std::pair(model.embed({&one, 1}, model::Pooling::kMean), model.embed({&pair, 1}, model::Pooling::kMean));
  };
  const auto different = vectors("cairn-types");
  EXPECT_GT(nmse(different.second, different.first), 1e-6);
  std::copy_n(types.values.begin(), kWidth, types.values.begin() + kWidth);
  const auto same = vectors("cairn-same-types");
  expect_same_bytes(same.first, same.second, "equal types");
}

// A head of one layer is named either way; without pooler it reads the first row as it is.
TEST(EncoderRankTest, AHeadOfOneLayerHasEitherName) {
  const auto text = some_tokens(30, 1);
  const model::EmbedText one{text};
  std::vector<Vector> scores;
  for (const char* name : {"cls.weight", "cls.output.weight"}) {
    AddedTensor head = random_tensor(name, {kWidth, 1}, 3);
    const EditedModel file(fixture("bert.gguf"), "cairn-one-layer", {head},
                           [](gguf::Writer& keys) { keys.set_integer("bert.pooling_type", gguf::ValueType::kU32, 4); });
    Model model(file.path(), "", 1);
    scores.push_back(model.embed({&one, 1}, model::Pooling::kRank));
    const Vector hidden = model.embed(text, model::Pooling::kCls);
    double score = 0;
    for (int64_t i = 0; i < kWidth; ++i) score += double{head.values[i]} * hidden[i];
    EXPECT_NEAR(scores.back()[0], score, 1e-5 * (1 + std::abs(score))) << name;
  }
  expect_same_bytes(scores[0], scores[1], "both names");
}

}  // namespace
}  // namespace cairn
