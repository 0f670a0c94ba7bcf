// A decoder on several backends gives the logits of one, bit for bit where all compute alike.
#include "model/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"

namespace cairn::model {
namespace {

gguf::Reader open_model(const std::string& name) {
  return gguf::Reader::open(std::filesystem::path(test_data()) / "models" / (name + ".gguf")).value();
}

std::unique_ptr<kernels::Backend> processor() { return kernels::make_cpu_backend({.threads = 1, .isa = ""}).value(); }

int32_t layers_of(const gguf::Reader& file) {
  const std::string architecture(file.metadata().string("general.architecture").value());
  return static_cast<int32_t>(file.metadata().integer(architecture + ".block_count").value());
}

class PipelineTest : public testing::Test {
 protected:
  static ModelOptions options(kernels::KvType kv_type = kernels::KvType::kF32) {
    return {.context_tokens = 64, .kv_type = kv_type, .batch_tokens_max = 16, .logits_max = 16};
  }
  /// Each on a backend of its own. `layers`: of each stage before the last.
  std::vector<PipelineStage> stages(const std::vector<int32_t>& layers) {
    std::vector<PipelineStage> stages;
    for (size_t i = 0; i <= layers.size(); ++i) {
      if (i == backends_.size()) backends_.push_back(processor());
      stages.push_back({backends_[i].get(), i < layers.size() ? layers[i] : 0});
    }
    return stages;
  }

  /// Logits, or hidden rows, of all positions: several rows at once, then single ones.
  std::vector<float> run(Runner& runner, LogitsWanted wanted) {
    const std::vector<int32_t> counts(runner.kv_layout().groups.size(), 2);
    std::vector<kernels::DeviceMemory*> devices;
    for (const auto& backend : backends_) devices.push_back(backend.get());
    cache::PagePool pool = cache::PagePool::create(devices, runner.kv_layout(), counts).value();
    cache::PageTable pages;
    EXPECT_TRUE(pool.extend(pages, kTokens));
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(TokenId{3 + i * 7 % 40});
    std::vector<float> all;
    for (int32_t at = 0; at < kTokens;) {
      const int32_t rows = at < 21 ? 7 : 1;
      const BatchSlice slice{SequenceId{}, 0, rows, at, &pages, wanted};
      const auto view = runner.step({std::span(tokens).subspan(at, rows), std::span(&slice, 1), &pool});
      EXPECT_TRUE(view.has_value()) << view.error().text();
      const std::span<const float> values = wanted == LogitsWanted::kAll ? view->values : view->hidden;
      all.insert(all.end(), values.begin(), values.end());
      at += rows;
    }
    return all;
  }

  /// Logits of steps, and of two drafts behind each.
  std::vector<float> run_with_drafts(Runner& runner) {
    const std::vector<int32_t> counts(runner.kv_layout().groups.size(), 2);
    std::vector<kernels::DeviceMemory*> devices;
    for (const auto& backend : backends_) devices.push_back(backend.get());
    cache::PagePool pool = cache::PagePool::create(devices, runner.kv_layout(), counts).value();
    cache::PageTable pages;
    EXPECT_TRUE(pool.extend(pages, kTokens + 2));
    std::vector<float> all;
    const auto take = [&](const Result<LogitsView>& view) {
      EXPECT_TRUE(view.has_value()) << view.error().text();
      all.insert(all.end(), view->values.begin(), view->values.end());
    };
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(TokenId{3 + i * 7 % 40});
    for (int32_t at = 0; at < kTokens;) {
      const int32_t rows = at < 21 ? 7 : 1;
      const BatchSlice slice{SequenceId{}, 0, rows, at, &pages, LogitsWanted::kAll};
      take(runner.step({std::span(tokens).subspan(at, rows), std::span(&slice, 1), &pool}));
      at += rows;
      for (int32_t ahead = 0; ahead < 2; ++ahead) {
        const TokenId token{5 + 3 * ahead};
        const BatchSlice draft{.rows = 1, .position_begin = at + ahead, .pages = &pages, .drafts_before = ahead};
        take(runner.mtp_step({std::span(&token, 1), std::span(&draft, 1), &pool}));
      }
    }
    return all;
  }

  static constexpr int32_t kTokens = 26;
  std::vector<std::unique_ptr<kernels::Backend>> backends_;
};

TEST_F(PipelineTest, LogitsAreThoseOfOneBackendWhereverItIsCut) {
  for (const char* name : {"llama", "llama-tied-llama3rope", "llama-moe", "gemma3", "olmo2-swa", "qwen3moe", "phi3",
                           "mistral3", "deepseek2", "deepseek32", "gpt2", "falcon-40b", "cohere2", "quant-llama-q4_k_m",
                           "gpt-oss", "gemma4-dense", "gemma4-moe", "deepseek4", "deepseek4-hash"}) {
    const gguf::Reader file = open_model(name);
    for (const kernels::KvType kv_type : {kernels::KvType::kF32, kernels::KvType::kF16}) {
      const auto whole = load_model(file, stages({}), options(kv_type)).value();
      const std::vector<float> expected = run(*whole, LogitsWanted::kAll);
      ASSERT_EQ(std::ssize(expected), kTokens * whole->vocabulary());
      for (int32_t count = 1; count < layers_of(file); ++count) {
        SCOPED_TRACE(fmt::format("{}, {} layers first", name, count));
        const auto split = load_model(file, stages({count}), options(kv_type));
        ASSERT_TRUE(split.has_value()) << split.error().text();
        const std::vector<float> logits = run(**split, LogitsWanted::kAll);
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0);
      }
    }
  }
}

// Gemma 4's small models: inputs per layer are made on each backend, and layers read keys and values of layer 2.
TEST_F(PipelineTest, LayersThatReadKeysOfAnotherLayerStayWithIt) {
  const gguf::Reader file = open_model("gemma4");
  const auto whole = load_model(file, stages({}), options()).value();
  const std::vector<float> expected = run(*whole, LogitsWanted::kAll);
  const std::vector<float> hidden = run(*whole, LogitsWanted::kHiddenAll);
  for (const std::vector<int32_t>& parts : {std::vector<int32_t>{1}, {2}, {1, 1}}) {
    const auto split = load_model(file, stages(parts), options());
    ASSERT_TRUE(split.has_value()) << split.error().text();
    EXPECT_EQ(run(**split, LogitsWanted::kAll), expected);
    EXPECT_EQ(run(**split, LogitsWanted::kHiddenAll), hidden);
  }
  for (const int32_t count : {3, 4, 5}) {
    const auto refused = load_model(file, stages({count}), options());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("at least 4 must be"));
  }
}

// GLM 5.2: layers 1 and 3 read the positions that the layer before them chooses.
TEST_F(PipelineTest, LayersThatReadChosenPositionsOfAnotherLayerStayWithIt) {
  const gguf::Reader file = open_model("../converted/glm_moe_dsa-shared");
  const auto whole = load_model(file, stages({}), options()).value();
  const std::vector<float> expected = run(*whole, LogitsWanted::kAll);
  const auto split = load_model(file, stages({2}), options());
  ASSERT_TRUE(split.has_value()) << split.error().text();
  EXPECT_EQ(run(**split, LogitsWanted::kAll), expected);
  for (const int32_t count : {1, 3}) {
    const auto refused = load_model(file, stages({count}), options());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(fmt::format("positions that layer {} chooses", count - 1)));
  }
}

TEST_F(PipelineTest, LogitsOfManyStagesAreThoseOfOneBackendToo) {
  for (const char* name : {"gemma3", "deepseek32"}) {  // with windows and without; with an index
    const gguf::Reader file = open_model(name);
    const int32_t layers = layers_of(file);
    const auto whole = load_model(file, stages({}), options(kernels::KvType::kF16)).value();
    const std::vector<float> expected = run(*whole, LogitsWanted::kAll);
    const std::vector<int32_t> single(static_cast<size_t>(layers) - 1, 1);  // a backend for each layer
    for (const std::vector<int32_t>& parts : {single, {1, layers - 2}, {layers - 2, 1}}) {
      SCOPED_TRACE(fmt::format("{}, {} stages before the last", name, parts.size()));
      const auto split = load_model(file, stages(parts), options(kernels::KvType::kF16));
      ASSERT_TRUE(split.has_value()) << split.error().text();
      EXPECT_EQ(run(**split, LogitsWanted::kAll), expected);
    }
  }
}

TEST_F(PipelineTest, RowsBehindTheLastNormToo) {
  for (const char* name : {"qwen3", "command-r", "falcon-40b", "deepseek4"}) {
    SCOPED_TRACE(name);
    const gguf::Reader file = open_model(name);
    const auto whole = load_model(file, stages({}), options()).value();
    const auto split = load_model(file, stages({1}), options()).value();
    EXPECT_EQ(split->embedding().dimensions, whole->embedding().dimensions);
    const std::vector<float> expected = run(*whole, LogitsWanted::kHiddenAll);
    EXPECT_EQ(std::ssize(expected), kTokens * whole->embedding().dimensions);
    EXPECT_EQ(run(*split, LogitsWanted::kHiddenAll), expected);
  }
}

// The module is where the last layer is.
TEST_F(PipelineTest, DraftsOfAnMtpModuleAreThoseOfOneBackend) {
  for (const char* name : {"glm4moe-mtp", "qwen35-mtp"}) {
    SCOPED_TRACE(name);
    const gguf::Reader file = open_model(name);
    ModelOptions with_module = options();
    with_module.load_mtp = true;
    const auto whole = load_model(file, stages({}), with_module).value();
    ASSERT_TRUE(whole->has_mtp());
    const std::vector<float> expected = run_with_drafts(*whole);
    for (const std::vector<int32_t>& parts : {std::vector<int32_t>{1}, {2}, {1, 1}}) {
      // The module is one of the file's layers, and the last device has another.
      if (std::accumulate(parts.begin(), parts.end(), 2) > layers_of(file)) continue;
      const auto split = load_model(file, stages(parts), with_module);
      ASSERT_TRUE(split.has_value()) << split.error().text();
      ASSERT_TRUE((*split)->has_mtp());
      EXPECT_EQ(run_with_drafts(**split), expected) << parts.size() << " stages first";
    }
  }
}

TEST_F(PipelineTest, EachStageHasItsOwnWeightsAndPages) {
  const gguf::Reader file = open_model("gemma3");  // with windows and without
  const int32_t layers = layers_of(file);
  const auto whole = model_memory(file, stages({}), options()).value();
  ASSERT_EQ(whole.stages.size(), 1u);
  EXPECT_EQ(whole.kv_layout.token_bytes(0), whole.kv_layout.token_bytes());
  const auto one = model_memory(file, stages({1}), options()).value();
  const auto most = model_memory(file, stages({layers - 1}), options()).value();
  for (const auto& plan : {one, most}) {
    ASSERT_EQ(plan.stages.size(), 2u);
    // The embedding is the output too, so both have it.
    EXPECT_GT(plan.stages[0].weight_bytes + plan.stages[1].weight_bytes, whole.stages[0].weight_bytes);
    EXPECT_LT(plan.stages[1].weight_bytes, whole.stages[0].weight_bytes);
    EXPECT_EQ(plan.kv_layout.token_bytes(0) + plan.kv_layout.token_bytes(1), whole.kv_layout.token_bytes());
    EXPECT_GT(plan.stages[0].scratch_bytes, 0);
  }
  EXPECT_GT(one.stages[1].weight_bytes, most.stages[1].weight_bytes);
  EXPECT_LT(one.stages[0].weight_bytes, most.stages[0].weight_bytes);
  EXPECT_EQ(one.kv_layout.token_bytes(0) * layers, whole.kv_layout.token_bytes());
}

TEST_F(PipelineTest, WhatCannotBeCutIsRefused) {
  const gguf::Reader llama = open_model("llama");
  for (const int32_t count : {-1, 0, layers_of(llama), 99}) {
    const auto refused = load_model(llama, stages({count}), options());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(std::to_string(count)));
  }
  const auto many = load_model(llama, stages(std::vector(kStagesMax, 1)), options());
  ASSERT_FALSE(many.has_value());
  EXPECT_THAT(many.error().message, testing::HasSubstr("10 devices"));
  const gguf::Reader bert = open_model("bert");
  const Error error = model_memory(bert, stages({1}), options()).error();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, testing::HasSubstr("cannot be split"));
}

}  // namespace
}  // namespace cairn::model
