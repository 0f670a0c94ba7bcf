#include "calibrate/importance_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/testing/test_data.h"
#include "calibrate/fit.h"
#include "convert/quantize_mix.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/embedder.h"
#include "quant/codec.h"

namespace cairn::calibrate {
namespace {

constexpr int32_t kWindow = 16;
constexpr int32_t kWindows = 3;

std::shared_ptr<kernels::Backend> cpu() { return kernels::make_cpu_backend({.threads = 1, .isa = {}}).value(); }

gguf::Reader open(const std::string& name) { return gguf::Reader::open(test_data("/models/" + name)).value(); }

std::vector<TokenId> some_tokens() {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kWindow * kWindows; ++i) tokens.push_back(TokenId{3 + i * 7 % 40});
  return tokens;
}

ReadingOptions reading(bool logits) {
  ReadingOptions options;
  options.windows.tokens = kWindow;
  options.count = kWindows;
  options.logits = logits;
  return options;
}

std::vector<float> values(const gguf::Tensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.elements()));
  quant::decode_row(tensor.type, tensor.bytes, out);
  return out;
}

// An RMS norm's output has the squares of its weights as mean squares, summed over all columns.
TEST(ImportanceCollector, SumsAreThoseOfTheRowsThatTheNormGives) {
  const gguf::Reader file = open("llama.gguf");
  const auto matrix = collect_importance(file, cpu(), some_tokens(), reading(false));
  ASSERT_TRUE(matrix.has_value()) << matrix.error().text();
  EXPECT_EQ(matrix->chunks, kWindows);
  EXPECT_EQ(matrix->chunk_tokens, kWindow);
  for (const char* pair : {"attn_norm attn_q", "ffn_norm ffn_up"}) {
    const std::string text(pair);
    const size_t blank = text.find(' ');
    const auto weights = values(*file.find_tensor("blk.0." + text.substr(0, blank) + ".weight"));
    const convert::ImportanceEntry& entry = matrix->entries.at("blk.0." + text.substr(blank + 1) + ".weight");
    EXPECT_THAT(entry.counts, ::testing::ElementsAre(kWindow * kWindows));
    ASSERT_EQ(entry.sums.size(), weights.size());
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += entry.sums[i] / (weights[i] * weights[i]);
    EXPECT_NEAR(sum / (kWindow * kWindows * static_cast<double>(weights.size())), 1, 0.02);
  }
  EXPECT_EQ(matrix->entries.at("blk.0.attn_q.weight").sums, matrix->entries.at("blk.0.attn_v.weight").sums);
  EXPECT_NE(matrix->entries.at("blk.0.attn_q.weight").sums, matrix->entries.at("blk.0.ffn_up.weight").sums);
  EXPECT_FALSE(matrix->entries.contains("output.weight"));
  const auto with_output = collect_importance(file, cpu(), some_tokens(), reading(true));
  ASSERT_TRUE(with_output.has_value()) << with_output.error().text();
  EXPECT_THAT(with_output->entries.at("output.weight").counts, ::testing::ElementsAre(kWindow * kWindows));
  EXPECT_EQ(with_output->entries.at("blk.0.ffn_down.weight").sums, matrix->entries.at("blk.0.ffn_down.weight").sums);
}

TEST(ImportanceCollector, EachExpertHasTheRowsThatChoseIt) {
  const gguf::Reader file = open("qwen3moe.gguf");
  const auto matrix = collect_importance(file, cpu(), some_tokens(), reading(false));
  ASSERT_TRUE(matrix.has_value()) << matrix.error().text();
  const auto used = file.metadata().integer("qwen3moe.expert_used_count").value();
  const auto experts = file.metadata().integer("qwen3moe.expert_count").value();
  for (const std::string kind : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
    const convert::ImportanceEntry& entry = matrix->entries.at("blk.1." + kind + ".weight");
    ASSERT_EQ(std::ssize(entry.counts), experts);
    EXPECT_EQ(std::accumulate(entry.counts.begin(), entry.counts.end(), 0.0),
              static_cast<double>(kWindow * kWindows * used));
    EXPECT_EQ(entry.counts, matrix->entries.at("blk.1.ffn_up_exps.weight").counts);
    const size_t columns = entry.sums.size() / entry.counts.size();
    for (size_t e = 0; e < entry.counts.size(); ++e) {
      const auto first = entry.sums.begin() + static_cast<int64_t>(e * columns);
      EXPECT_EQ(std::accumulate(first, first + static_cast<int64_t>(columns), 0.0) > 0, entry.counts[e] > 0);
    }
  }
}

// Tables whose rows are looked up have no products, and kv_b is taken apart into matrices that the file does not have.
bool has_no_product(std::string_view name, bool is_tied) {
  return (name == "token_embd.weight" && !is_tied) || name == "per_layer_token_embd.weight" ||
         name.contains("attn_kv_b") || name.contains("nextn") || name.starts_with("cls") || name.contains("hc_");
}

TEST(ImportanceCollector, EveryMatrixOfEveryModelIsReached) {
  int models = 0;
  for (const auto& each : std::filesystem::directory_iterator(test_data("/models"))) {
    if (each.path().extension() != ".gguf") continue;
    SCOPED_TRACE(each.path().filename().string());
    const gguf::Reader file = gguf::Reader::open(each.path()).value();
    const auto matrix = collect_importance(file, cpu(), some_tokens(), reading(!model::is_encoder(file)));
    ASSERT_TRUE(matrix.has_value()) << matrix.error().text();
    ++models;
    const bool is_tied = file.find_tensor("output.weight") == nullptr && !model::is_encoder(file);
    // MTP modules are not loaded.
    const auto drafting = file.metadata().integer_or(
        std::string(file.metadata().string("general.architecture").value()) + ".nextn_predict_layers", 0);
    const auto layers = file.metadata().integer_or(
        std::string(file.metadata().string("general.architecture").value()) + ".block_count", 0);
    for (const gguf::Tensor& tensor : file.tensors()) {
      if (convert::keeps_type(tensor) || has_no_product(tensor.name, is_tied)) continue;
      if (*drafting > 0 && tensor.name.starts_with("blk." + std::to_string(*layers - *drafting) + ".")) continue;
      const auto found = matrix->entries.find(tensor.name);
      if (found == matrix->entries.end()) {
        ADD_FAILURE() << tensor.name << " has no entry";
        continue;
      }
      EXPECT_TRUE(matrix->of(tensor).has_value()) << tensor.name;
      EXPECT_GT(std::ranges::max(found->second.counts), 0) << tensor.name;
    }
  }
  EXPECT_GT(models, 50);
}

}  // namespace
}  // namespace cairn::calibrate
